# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Steps taken apart."""

import unittest

try:
    from fairway.torch.parts import Event, parts_of, union, without
except ImportError:
    Event = None


@unittest.skipIf(Event is None, "this interpreter has no PyTorch")
class Taken(unittest.TestCase):
    def check(self, events, exchange, wait, bubble):
        got = parts_of(events)
        for name, want in (("exchange", exchange), ("wait", wait), ("bubble", bubble)):
            self.assertAlmostEqual(getattr(got, name), want, msg=f"{name} of {got}")

    def test_spans(self):
        self.assertEqual(union([(4, 5), (0, 2), (1, 3), (3, 3.5)]), [(0, 3.5), (4, 5)])
        self.assertEqual(without([(0, 10), (12, 13)], [(-1, 1), (2, 3), (9, 12.5)]), [(1, 2), (3, 9), (12.5, 13)])
        self.assertEqual(without([(0, 1)], [(0, 1)]), [])
        self.assertEqual(without([(0, 1)], []), [(0, 1)])

    def test_on_a_cpu(self):
        """An exchange of 4 s, of which an operator hides one; the operator around it waits, and
        so computes nothing. Python's own time is no computing."""
        self.check([Event("gloo:all_gather", 1, 5), Event("aten::mm", 0, 2), Event("FSDP::all_gather", 1, 5)], 4, 3, 0)
        waits = [Event("aten::add", 0, 5), Event("_c10d_functional::wait_tensor", 2, 4), Event("gloo:all_reduce", 1, 4)]
        self.check(waits, 3, 2, 0)
        self.check([Event("gloo:all_gather", 0, 2), Event("gloo:all_reduce", 1, 3)], 3, 3, 0)
        self.check([Event("aten::mm", 0, 2)], 0, 0, 0)
        self.check([], 0, 0, 0)

    def test_stages(self):
        """A stage that waits for another is idle only where it does nothing else."""
        self.check([Event("gloo:recv", 0, 6), Event("aten::mm", 1, 2), Event("gloo:all_reduce", 4, 5), Event("gloo:send", 5, 7)], 1, 1, 5)

    def test_on_a_gpu(self):
        """Its kernels count, not what the CPU did meanwhile."""
        self.check(
            [
                Event("aten::mm", 0, 9), Event("nccl:all_gather", 0, 9), Event("gemm_kernel", 0, 3, True),
                Event("ncclDevKernel_AllGather_RING_LL", 2, 5, True), Event("Memcpy DtoD", 4, 5, True),
                Event("ncclDevKernel_SendRecv", 4.5, 8, True),
            ], 3, 1, 3,
        )  # fmt: skip


if __name__ == "__main__":
    unittest.main()
