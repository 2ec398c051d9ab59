# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the graph of every model as ONNX, without the weights, and packs them."""

import io
import json
import os
import tarfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

from . import catalogue
from .worker import context

KEEP_ELEMENTS = 64  # tensors up to this size stay inside: they are shapes, axes and scales
WEIGHTS = "weights.bin"  # larger tensors refer to this file, which is not included


def export(name, options):
    """The bytes of one model's graph and the options that worked.

    A few operators have no ONNX form while training or in an older opset; the newer opset is
    tried, then the graph of inference.
    """
    attempts = [options, {**options, "opset": 18}, {**options, "opset": 18, "training": False}]
    for i, attempt in enumerate(attempts):
        try:
            return _export(name, attempt), attempt
        except Exception:  # the exporter can fail in many ways; the last failure is reported
            if i == len(attempts) - 1:
                raise


def _export(name, options):
    import onnx
    import torch
    torch.set_num_threads(1)
    entry = catalogue.by_name()[name]
    model = entry.build()
    model.train(options["training"])
    for module in model.modules():
        if isinstance(module, torch.nn.RNNBase):
            module.dropout = 0.0  # between the layers: ONNX does not support it
    arguments, _ = entry.inputs(options["batch"], "cpu")
    names = [f"input_{i}" for i in range(len(arguments))]
    settings = {"export_params": False, "do_constant_folding": False, "opset_version": options["opset"], "input_names": names}
    settings["training"] = torch.onnx.TrainingMode.TRAINING if options["training"] else torch.onnx.TrainingMode.EVAL
    if options["dynamic"]:
        settings["dynamic_axes"] = {n: {0: "batch"} for n in names}
    if "dynamo" in torch.onnx.export.__code__.co_varnames:
        settings["dynamo"] = False
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, arguments, buffer, **settings)
    graph = onnx.load_model_from_string(buffer.getvalue())
    strip(graph.graph, names)
    graph.graph.name = name
    graph = onnx.shape_inference.infer_shapes(graph, data_prop=True)
    return graph.SerializeToString()


def strip(graph, inputs):
    """Makes weights initialisers that refer to a file that is not included."""
    import onnx
    offset = 0

    def outside(tensor):
        nonlocal offset
        count = 1
        for dimension in tensor.dims:
            count *= dimension
        size = count * (8 if tensor.data_type in (onnx.TensorProto.INT64, onnx.TensorProto.DOUBLE) else 4)
        for field in ("raw_data", "float_data", "int32_data", "int64_data", "double_data"):
            tensor.ClearField(field)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", WEIGHTS), ("offset", offset), ("length", size)):
            tensor.external_data.add(key=key, value=str(value))
        offset += size
        return count

    def elements(tensor):
        count = 1
        for dimension in tensor.dims:
            count *= dimension
        return count

    for value in [v for v in graph.input if v.name not in inputs]:
        kind = value.type.tensor_type
        tensor = graph.initializer.add(name=value.name, data_type=kind.elem_type)
        tensor.dims.extend(d.dim_value for d in kind.shape.dim)
        outside(tensor)
        graph.input.remove(value)
    for node in list(graph.node):
        if node.op_type != "Constant" or not node.attribute or elements(node.attribute[0].t) <= KEEP_ELEMENTS:
            continue
        tensor = graph.initializer.add()
        tensor.CopyFrom(node.attribute[0].t)
        tensor.name = node.output[0]
        outside(tensor)
        graph.node.remove(node)


def _serve(pipe, name, options):
    try:
        pipe.send(("ok", export(name, options)))
    except Exception as failure:  # a model that cannot be exported is listed, not fatal
        pipe.send(("failed", repr(failure)[:300]))


def _export_apart(processes, entry, options, seconds):
    """Exports a model in a process of its own: ("ok", (bytes, options that worked)) or ("failed", why)."""
    began = time.monotonic()
    near, far = processes.Pipe()
    process = processes.Process(target=_serve, args=(far, entry.name, options), daemon=True)
    process.start()
    far.close()
    try:
        status, value = near.recv() if near.poll(seconds) else ("failed", f"no graph in {seconds} s")
    except EOFError:
        status, value = "failed", "the process died"
    process.kill()
    process.join()
    print(f"{entry.name}: {status} {value if status == 'failed' else len(value[0])} in {time.monotonic() - began:.1f} s", flush=True)
    return status, value


def write_all(entries, options, path, jobs=1, seconds_each=180):
    """Exports the models, that many at a time; returns the names that failed and why."""
    processes = context()
    failures, index = {}, {}
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with tarfile.open(path, "w:gz") as archive, ThreadPoolExecutor(jobs) as pool:
        results = pool.map(lambda entry: _export_apart(processes, entry, options, seconds_each), entries)
        for entry, (status, value) in zip(entries, results):
            if status == "ok":
                file = entry.name.replace("/", "--").replace("@", "-at-") + ".onnx"
                value, used = value
                index[entry.name] = {"file": file, **used}
                _add(archive, file, value)
            else:
                failures[entry.name] = value
        about = {"options": options, "files": index, "failures": failures}
        _add(archive, "index.json", json.dumps(about, indent=1).encode())
    return failures


def _add(archive, name, data):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))
