# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""A process that has imported torch and waits to become the ranks of an attempt:
each is a fork of it. It speaks with its supervisor over descriptor 3: frames of JSON
behind their length. A frame that orders a rank carries descriptors: standard input,
output, and the gate, on which the rank waits until the supervisor lets it run."""

import array
import contextlib
import ctypes
import gc
import importlib.machinery
import io
import json
import os
import runpy
import signal
import socket
import struct
import sys
import types

LENGTH = struct.Struct("!I")
PR_SET_PDEATHSIG, SIGKILL = 1, 9


def send(link, message):
    data = json.dumps(message).encode()
    link.sendall(LENGTH.pack(len(data)) + data)


def receive(link):
    """The next order and its descriptors; None, when the supervisor has gone."""
    rights = array.array("i")
    data, carried, _, _ = link.recvmsg(LENGTH.size, socket.CMSG_SPACE(4 * rights.itemsize))
    for level, kind, content in carried:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            rights.frombytes(content[: len(content) - len(content) % rights.itemsize])
    while len(data) < LENGTH.size or len(data) < LENGTH.size + LENGTH.unpack(data[: LENGTH.size])[0]:
        more = link.recv(1 << 20)  # one order at a time: no more than the rest of it comes
        if not more:
            return None, []
        data += more
    return json.loads(data[LENGTH.size :]), list(rights)


def stamps():
    """When the folders that hold packages were last changed."""
    import torch

    found = {}
    for folder in [*sys.path, os.path.dirname(torch.__file__)]:
        try:
            found[folder] = os.stat(folder or ".").st_mtime_ns if folder else 0
        except OSError:
            found[folder] = -1
    return found


def check(order, imported):
    """Raises what forbids to start the order here. The working folder is that of all ranks."""
    if stamps() != imported:
        raise RuntimeError("packages have changed")
    os.chdir(order["dir"])
    if not order["module"]:
        path = order["args"][0]
        if not os.path.isfile(path):
            raise FileNotFoundError(path)
        open(path, "rb").close()


def fork(order, rights):
    """Starts a rank. Returns its number here, and None in the rank. The rank is the
    child of a child that ends at once: so it becomes the supervisor's."""
    reader, writer = os.pipe()
    between = os.fork()
    if between == 0:
        rank = os.fork()
        if rank == 0:
            os.close(reader)
            os.close(writer)
            return None
        os.setpgid(rank, order["pgid"])
        os.write(writer, b"%d" % rank)
        os._exit(0)
    os.close(writer)
    os.waitpid(between, 0)
    number = os.read(reader, 32)
    os.close(reader)
    if not number:
        raise RuntimeError("cannot fork")
    return int(number)


def rewrite(fields, strings):
    """Puts other strings where /proc shows those that the process was started with."""
    with open("/proc/self/stat", "rb") as file:
        values = file.read().rpartition(b")")[2].split()
    start, end = (int(values[i]) for i in fields)  # counted from the third field of proc(5)
    data = b"".join(s + b"\0" for s in strings)
    if len(data) > end - start:
        raise RuntimeError("no room for the variables")
    with open("/proc/self/mem", "r+b", 0) as file:
        file.seek(start)
        file.write(data.ljust(end - start, b"\0"))


def become(order, rights):
    """Makes this process what the order says, but for its program."""
    stdin, stdout, gate = rights
    if os.read(gate, 1) != b"1":
        os._exit(127)  # the supervisor has given it up
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
    if os.getppid() != order["parent"]:
        os._exit(127)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the daemon may have been started with nohup
    for source, target in ((stdin, 0), (stdout, 1), (stdout, 2)):
        os.dup2(source, target)
    for spent in rights:
        os.close(spent)
    variables = [v.encode() for v in order["env"]]
    rewrite((47, 48), variables)
    rewrite((45, 46), [s.encode() for s in order["command"]])
    os.environ.clear()
    for variable in variables:
        name, _, value = variable.partition(b"=")
        os.environb[name] = value
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()  # a fork has the same numbers ahead
    sys.orig_argv = [os.fsdecode(s.encode()) for s in order["command"]]
    args = [os.fsdecode(s.encode()) for s in order["args"]]
    program = types.ModuleType("__main__")
    program.__builtins__ = __builtins__
    program.__loader__ = importlib.machinery.BuiltinImporter
    if sys.path and sys.path[0] == "":
        sys.path[0] = os.getcwd() if order["module"] else os.path.dirname(os.path.realpath(args[0]))
    if order["module"]:
        sys.argv = ["-m", *args[1:]]
    else:
        sys.argv = args
        program.__file__ = os.path.abspath(args[0]) if sys.version_info >= (3, 9) else args[0]
        program.__cached__ = None
        program.__loader__ = importlib.machinery.SourceFileLoader("__main__", program.__file__)
    sys.modules["__main__"] = program
    return args[0], program


def wait():
    """Waits for orders; returns in a rank only, with its order and descriptors."""
    link = socket.socket(fileno=3)
    try:
        if sys.version_info < (3, 8):
            raise ImportError("Python is older than 3.8")
        import torch

        with contextlib.suppress(Exception):  # the first optimizer imports as much again
            torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    except BaseException as err:  # noqa: BLE001
        send(link, {"error": f"cannot import torch: {err}"})
        os._exit(0)
    imported = stamps()
    gc.collect()
    gc.freeze()  # so that the collector of a rank does not touch, and so copy, all of it
    send(link, {"pid": os.getpid()})
    while True:
        order, rights = receive(link)
        if order is None:
            os._exit(0)
        try:
            check(order, imported)
            rank = fork(order, rights)
        except Exception as err:  # noqa: BLE001
            send(link, {"error": f"{type(err).__name__}: {err}"})
        else:
            if rank is None:
                link.close()
                return order, rights
            send(link, {"pid": rank})
        for spent in rights:
            os.close(spent)


_order, _rights = wait()
try:
    _name, _program = become(_order, _rights)
except BaseException:
    sys.excepthook(*sys.exc_info())
    sys.stderr.flush()
    os._exit(1)
try:
    if _order["module"]:
        runpy._run_module_as_main(_name)
    else:
        with io.open_code(_program.__file__) as _file:
            _code = compile(_file.read(), _program.__file__, "exec", dont_inherit=True)
        exec(_code, _program.__dict__)
except (SystemExit, KeyboardInterrupt):
    raise
except BaseException as _err:
    _err.__traceback__ = _err.__traceback__.tb_next  # without this file
    sys.excepthook(type(_err), _err, _err.__traceback__)
    sys.exit(1)
