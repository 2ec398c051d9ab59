# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Checkpoints under crashes and damage; the notice."""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

from fairway.behind import Behind
from fairway.checkpoint import Store
from fairway.notice import Notice

SRC = Path(__file__).resolve().parents[1] / "src"

WRITER = """
import sys
from fairway.checkpoint import Store
store = Store(sys.argv[1], memory=sys.argv[2])
number = int(store.load()[:8]) if store.latest() else 0
while True:
    number += 1
    def content(file):
        file.write(b"%08d" % number)
        for _ in range(50):
            file.write(bytes([number % 256]) * 4000)
    store.save(content)
    print(number, flush=True)
"""


class StoreTests(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.store = Store(Path(folder.name) / "made" / "when" / "needed")

    def files(self):
        return sorted(p.name for p in self.store.folder.iterdir())

    def test_empty(self):
        self.assertIsNone(self.store.latest())
        self.assertIsNone(self.store.load())

    def test_last_two_are_kept(self):
        for i in range(12):
            self.store.save(b"state %d" % i)
        self.assertEqual([name.split("-")[1] for name in self.files()], ["11", "12"])
        self.assertEqual(self.store.load(), b"state 11")

    def test_damage_of_any_kind(self):
        def truncate(path):
            os.truncate(path, path.stat().st_size // 2)

        def empty(path):
            os.truncate(path, 0)

        def flip(path):
            data = bytearray(path.read_bytes())
            data[random.randrange(len(data))] ^= 4
            path.write_bytes(data)

        def grow(path):
            with open(path, "ab") as f:
                f.write(b"x")

        def remove(path):
            path.unlink()
            path.mkdir()

        for damage in (truncate, empty, flip, grow, remove):
            with self.subTest(damage.__name__), tempfile.TemporaryDirectory() as folder:
                store = Store(folder)
                store.save(b"first " * 100)
                damage(store.save(b"second" * 100))
                with self.assertLogs("fairway", "WARNING"):
                    self.assertEqual(store.load(), b"first " * 100)
                store.save(b"third")
                self.assertEqual(store.load(), b"third")

    def test_both_damaged(self):
        for _ in range(2):
            os.truncate(self.store.save(b"state"), 1)
        with self.assertLogs("fairway", "WARNING"):
            self.assertIsNone(self.store.load())

    def test_failure_while_writing(self):
        self.store.save(b"good")

        def content(file):
            file.write(b"half")
            raise OSError(28, "No space left on device")

        with self.assertRaises(OSError):
            self.store.save(content)
        self.assertEqual(len(self.files()), 1)
        self.assertEqual(self.store.load(), b"good")

    def test_strangers_are_left_alone(self):
        self.store.save(b"good")
        (self.store.folder / "checkpoint-9-notes.txt").write_text("mine")
        (self.store.folder / ".unfinished-7-1").write_text("half")
        self.store.save(b"better")
        self.assertEqual(self.store.load(), b"better")
        self.assertIn("checkpoint-9-notes.txt", self.files())
        self.assertNotIn(".unfinished-7-1", self.files())

    def test_kill_at_any_moment(self):
        """What was said to be saved is there after kill -9, and whole."""
        self.kill("", 12)

    def test_kill_at_any_moment_with_memory(self):
        with tempfile.TemporaryDirectory() as memory:
            self.store = Store(self.store.folder, memory=memory)
            self.kill(memory, 12)

    def kill(self, memory, times):
        rng, said = random.Random(1), 0
        for n in range(times):
            writer = subprocess.Popen([sys.executable, "-c", WRITER, str(self.store.folder), memory], stdout=subprocess.PIPE,
                                      env={"PYTHONPATH": str(SRC)})
            for _ in range(1 + n % 2):
                said = int(writer.stdout.readline())
            time.sleep(rng.uniform(0, 0.03))
            writer.send_signal(signal.SIGKILL)
            rest = writer.stdout.read().split()
            writer.wait()
            writer.stdout.close()
            said = int(rest[-1]) if rest else said
            content = self.store.load()
            number = int(content[:8])
            self.assertIn(number, (said, said + 1))
            self.assertEqual(content[8:], bytes([number % 256]) * 200_000)
        self.assertGreater(said, times)


class Nearest(unittest.TestCase):
    """Of the checkpoints in memory and on the disk, the newest that is whole."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.memory = Path(folder.name) / "memory"
        self.store = Store(Path(folder.name) / "disk", memory=self.memory)

    def copies(self):
        return sorted(self.memory.glob("*/checkpoint-*"))

    def save_to_memory_only(self, content):
        """Saves to memory, but not to the disk, as if killed in between."""
        with mock.patch.object(self.store.disk, "put", side_effect=OSError(28, "full")), self.assertRaises(OSError):
            self.store.save(content)

    def test_same_in_both(self):
        path = self.store.save(b"state")
        self.assertEqual(self.store.latest(), self.copies()[0])
        self.assertEqual(path.read_bytes(), b"state")
        self.assertTrue(self.store.durable(self.store.latest()))

    def test_memory_is_newer(self):
        self.store.save(b"first")
        self.save_to_memory_only(b"second")
        self.assertEqual(self.store.load(), b"second")
        self.assertFalse(self.store.durable(self.store.latest()))
        self.assertEqual([p.name.split("-")[1] for p in self.copies()], ["2"], "one copy is enough")
        self.store.save(b"third")
        self.assertEqual((self.store.load(), self.store.latest().name.split("-")[1]), (b"third", "3"))

    def test_memory_is_damaged(self):
        self.store.save(b"first")
        self.save_to_memory_only(b"second")
        os.truncate(self.copies()[0], 3)
        with self.assertLogs("fairway", "WARNING"):
            self.assertEqual(self.store.load(), b"first")

    def test_ran_elsewhere_in_between(self):
        self.store.save(b"first")
        self.save_to_memory_only(b"second")
        elsewhere = Store(self.store.folder)
        elsewhere.save(b"second, elsewhere")
        self.assertEqual(self.store.load(), b"second, elsewhere")

    def test_memory_is_gone_or_full(self):
        self.store.save(b"first")
        shutil.rmtree(self.memory)
        self.assertEqual(self.store.load(), b"first")
        with mock.patch("fairway.checkpoint._room", return_value=10):
            self.store.save(b"too large for memory")
        self.assertEqual((self.copies(), self.store.load()), ([], b"too large for memory"))

    def test_another_folder_is_another_job(self):
        self.store.save(b"mine")
        self.assertIsNone(Store(self.store.folder.parent / "other", memory=self.memory).latest())


class BehindTests(unittest.TestCase):
    def test_one_at_a_time_and_the_newest_waits(self):
        written, go = [], threading.Semaphore(0)

        def write(number):
            go.acquire()
            written.append(number)

        behind = Behind()
        behind.put(lambda: write(1))
        self.assertFalse(behind.settle(0.05))
        self.assertTrue(behind.busy)
        behind.put(lambda: write(2))
        behind.put(lambda: write(3))
        go.release()
        go.release()
        self.assertTrue(behind.settle(60))
        self.assertIn(written, ([1, 3], [3]))  # the thread may be late
        behind.withdraw()
        go.release()
        behind.put(lambda: write(4))
        behind.settle()
        self.assertEqual(written[-1], 4)
        self.assertFalse(behind.busy)


class NoticeTests(unittest.TestCase):
    def setUp(self):
        self.addCleanup(signal.signal, signal.SIGTERM, signal.getsignal(signal.SIGTERM))

    def test_signal_raises_the_flag(self):
        notice = Notice()
        self.assertTrue(notice.install())
        self.assertFalse(notice.given)
        self.assertEqual(notice.left(1000), 1000)
        os.kill(os.getpid(), signal.SIGTERM)
        self.assertTrue(notice.given)
        self.assertTrue(900 < notice.left(1000) <= 1000)
        os.kill(os.getpid(), signal.SIGTERM)  # a second one changes nothing
        notice.uninstall()
        self.assertEqual(signal.getsignal(signal.SIGTERM), signal.SIG_DFL)

    def test_child_by_fork_dies_of_it(self):
        notice = Notice()
        notice.install()
        up, tell = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(tell, b"x")  # Python drops signals that come during the fork itself
            time.sleep(120)
            os._exit(0)
        os.read(up, 1)
        os.close(up)
        os.close(tell)
        os.kill(child, signal.SIGTERM)
        self.assertEqual(os.WTERMSIG(os.waitpid(child, 0)[1]), signal.SIGTERM)
        self.assertFalse(notice.given)

    def test_handler_before_is_called(self):
        calls = []
        signal.signal(signal.SIGTERM, lambda *_: calls.append(1))
        notice = Notice()
        notice.install()
        os.kill(os.getpid(), signal.SIGTERM)
        self.assertEqual((notice.given, calls), (True, [1]))

    def test_not_in_the_main_thread(self):
        notice, got = Notice(), []
        with self.assertLogs("fairway", "WARNING"):
            thread = threading.Thread(target=lambda: got.append(notice.install()))
            thread.start()
            thread.join()
        self.assertEqual(got, [False])
        notice.give()
        self.assertTrue(notice.given)


if __name__ == "__main__":
    unittest.main()
