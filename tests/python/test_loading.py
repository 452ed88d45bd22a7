"""The library in a process: when it is loaded, and what becomes of it in forked children."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import isobit
import pytest
import torch
from kit import python


def test_import_loads_no_library():
    program = """
        import isobit
        assert not isobit._C.is_loaded() and isobit._C.path() is None
        assert "libisobit" not in open("/proc/self/maps").read()
        print(isobit.get_num_threads() > 0)
    """
    assert python(program).strip() == "True"


def test_whatever_is_called_first_loads_it():
    """In a child each, of a process that did not."""
    python("""
        import os
        import torch
        import isobit
        from isobit import _C

        def refuses(call, *arguments):
            try:
                call(1, *arguments)
            except RuntimeError as error:
                assert "not a handle" in str(error), error
            else:
                raise AssertionError

        torch.set_num_threads(1)
        x, text = torch.ones(2, 2), "quantize_per_tensor x=f32[2] zero_point=none q=s8 qmin=-8 qmax=7"
        for call in (
            lambda: isobit.Plan(text),
            lambda: _C.plan_call((1, 2, 0, (False,)), (x,), True),  # of another load
            lambda: isobit.linear(x, x),
            lambda: isobit.linear(x, x.requires_grad_()).sum().backward(),
            lambda: isobit.fake_quantize_per_tensor_affine(x.to("meta"), 0.1, 0, -8, 7),
            isobit.support,
            isobit.info,
            lambda: isobit.set_num_threads(2),
            lambda: refuses(_C.plan_describe),
            lambda: refuses(_C.plan_destroy),
            lambda: refuses(_C.plan_workspace_size),
            _C.generation,
            _C.version,
        ):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    call()
                    status = int(not _C.is_loaded())
                finally:
                    os._exit(status)
            assert os.waitpid(child, 0)[1] == 0, call.__code__.co_firstlineno
    """)


def test_import_without_a_library():
    """Importing works; the first call says what is missing."""
    program = """
        import os, sys, torch, isobit
        for path in ("/nowhere/libisobit.so", "/nowhere/libisobit.so", sys.executable):
            os.environ["ISOBIT_LIBRARY"] = path
            try:
                isobit.quantize_per_tensor(torch.ones(3), 1.0, 0, -8, 7, torch.int8)
            except RuntimeError as error:
                print(error)
        layer = isobit.nn.QuantizedLinear(3, 4)
    """
    lines = python(program).splitlines()
    assert len(lines) == 3 and all("/nowhere/libisobit.so" in text for text in lines[:2])
    assert "failed" in lines[2]


def test_import_of_a_checkout_that_is_not_built(tmp_path):
    """The extension's sources, which lie where it would, are not taken for it."""
    package = tmp_path / "isobit"
    package.mkdir()
    for name in ("__init__.py", "_load.py", "_errors.py"):
        shutil.copy(Path(isobit.__file__).parent / name, package)
    (package / "_C.c").touch()
    program = "import sys; sys.path.insert(0, sys.argv[1]); import isobit"
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert "isobit is not built here; in a checkout, ./build.sh lib or pip install" in done.stderr


def test_a_library_that_lacks_something_is_opened_once():
    program = """
        import os, torch, isobit
        os.environ["ISOBIT_LIBRARY"] = isobit._C.__file__  # any other library
        for _ in range(3):
            try:
                isobit.quantize_per_tensor(torch.ones(3), 1.0, 0, -8, 7, torch.int8)
            except RuntimeError as error:
                print(error)
        assert "memfd" not in open("/proc/self/maps").read()
    """
    lines = python(program).splitlines()
    assert len(lines) == 3 and all("lacks isobit_version" in text for text in lines)


@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
def test_a_library_of_another_abi_version_is_refused(tmp_path):
    header = (Path(__file__).parents[2] / "include/isobit.h").read_text()
    functions = [
        f"int {name}(void) {{ return 99; }}" for name in re.findall(r"^ISOBIT_API .*?(isobit_\w+)\(", header, re.M)
    ]
    library = tmp_path / "libisobit.so.1"
    subprocess.run(["cc", "-shared", "-x", "c", "-", "-o", library], input="\n".join(functions), text=True, check=True)
    program = f"""
        import os, torch, isobit
        os.environ["ISOBIT_LIBRARY"] = "{library}"
        try:
            isobit.quantize_per_tensor(torch.ones(3), 1.0, 0, -8, 7, torch.int8)
        except RuntimeError as error:
            print(error)
    """
    assert python(program).strip() == f"isobit: {library} has ABI version 99, this package needs 1"


def test_threads_that_load_at_once():
    program = """
        import threading, time, torch, isobit
        find = isobit._load.find_library
        isobit._C.set_finder(lambda: time.sleep(0.3) or find())
        calls = [lambda: isobit.quantize_per_tensor(torch.ones(3), 1.0, 0, -8, 7, torch.int8)] * 4
        threads = [threading.Thread(target=f) for f in calls]
        [t.start() for t in threads], [t.join() for t in threads]
        print(isobit._C.generation())
    """
    assert python(program) == "1\n"


class Dataset(torch.utils.data.Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, i):
        x = torch.full((64, 96), float(i))
        q = isobit.quantize_per_channel(x, torch.full((64,), 0.5), None, 0, -128, 127, torch.int8)
        return isobit.grid_sample(q[None, None].float(), torch.zeros(1, 4, 4, 2))[0]


@pytest.mark.parametrize("loaded", (True, False))
def test_data_loader_that_forks(loaded):
    """Its workers are children of a process that has the library loaded, or not."""
    program = f"""
        import torch
        import test_loading
        data = test_loading.Dataset()
        if {loaded}:
            data[3]
        assert test_loading.isobit._C.is_loaded() == {loaded}
        loader = torch.utils.data.DataLoader(
            data, batch_size=4, num_workers=3, multiprocessing_context="fork", timeout=60, persistent_workers=True)
        for epoch in range(2):
            total = sum(batch.sum() for batch in loader)
            assert total == sum(min(2 * i, 127) for i in range(24)) * 16, total
        if {loaded}:
            data[3]  # the parent goes on
        print("done")
    """
    assert python(program, timeout=200).strip() == "done"


def test_children_of_children():
    program = """
        import os, torch, isobit
        x = torch.arange(4096.0)
        plan = isobit.Plan("quantize_per_tensor x=f32[4096] zero_point=none q=s8 qmin=-128 qmax=127")
        def work():
            q = torch.empty(4096, dtype=torch.int8)
            plan.run(x, torch.tensor(64.0), None, q)
            y = isobit.fake_quantize_per_tensor_affine(x, 64.0, 0, -128, 127)
            return y.tolist() == (q.float() * 64).tolist()
        assert work() and isobit.info()["parallel"] == "host"  # PyTorch's threads
        torch.set_num_threads(1)
        pid = os.fork()
        if pid == 0:
            ok = work() and isobit._C.generation() == 2 and isobit.info()["parallel"] == "isobit"
            child = os.fork()
            if child == 0:
                os._exit(0 if work() and isobit._C.generation() == 3 else 1)
            os._exit(0 if ok and os.waitpid(child, 0)[1] == 0 else 1)
        assert os.waitpid(pid, 0)[1] == 0
        assert work() and isobit._C.generation() == 1
        print("done")
    """
    assert python(program, timeout=60).strip() == "done"


def test_child_of_child_that_gets_the_same_descriptors():
    """The loader knows a library by its name, which has the number of its descriptor."""
    program = """
        import os, time, torch, isobit
        x = torch.arange(4096.0)
        def work():
            return float(isobit.fake_quantize_per_tensor_affine(x, 64.0, 0, -128, 127).sum()) > 0
        def take(*numbers):
            for fd in numbers:
                os.path.exists(f"/proc/self/fd/{fd}") or os.dup2(1, fd)
        torch.set_num_threads(1)
        assert work()
        time.sleep(0.2)  # Go opens files of the control group soon after; it needs them no more
        take(*range(3, 160))
        for depth in range(1, 5):
            os.close(120 + depth)  # now free: this one for the library, 140 for its copy
            os.close(140)
            pid = os.fork()
            if pid:
                os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
            assert work() and isobit._C.generation() == depth + 1
            time.sleep(0.2)
            take(120 + depth, 140)
        print("done", flush=True)
        os._exit(0)
    """
    assert python(program, timeout=60).strip() == "done"


def test_a_child_that_loads_first_has_threads_of_its_own():
    """Where the parent's OpenMP had threads, which a child lacks: it waited for them."""
    python("""
        import os
        import torch
        import isobit

        torch.set_num_threads(2)
        torch.ones(2_000_000).square()
        child = os.fork()
        if child == 0:
            torch.set_num_threads(1)
            isobit.set_num_threads(2)
            isobit.fake_quantize_per_tensor_affine(torch.ones(1_000_000), 0.5, 0, -8, 7)
            os._exit(0 if isobit.info()["parallel"] == "isobit" else 3)
        assert os.waitpid(child, 0)[1] == 0
    """)
