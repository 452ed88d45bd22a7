"""Compiles kernels/*.cu with NVRTC, one piece of PTX per kernel, so that a plan loads only what it runs.

ptx.py LIBNVRTC FOLDER     writes kernels.zip (each kernel's PTX, renumbered) and kernels.sum, the
                           digest of everything that kernels.zip was made from; FOLDER keeps
                           what each source became, so that only what changed is compiled
ptx.py --assemble PTXAS [PART]   assembles every kernel, or those with PART in their names, and
                           lists registers, stack and spills
"""

import collections
import concurrent.futures
import ctypes
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
# What the numeric contract asks of the compiler.
OPTIONS = [
    "--std=c++17",
    "--fmad=false",
    "--prec-div=true",
    "--prec-sqrt=true",
    "--ftz=false",
]
# The oldest GPUs that kernels are for; those of files named *_sm80.cu need the later one.
OLDEST, LATER = "75", "80"
TARGETS = ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"]


def architecture(name):
    """The oldest GPU that a kernel, or those of a file, are for."""
    return LATER if "_sm" + LATER in name else OLDEST


def digest():
    """The SHA-256 of the sources and of this file, as ptx_test.go computes it."""
    total = hashlib.sha256()
    for path in sorted([*HERE.glob("kernels/*.cu*"), HERE / "ptx.py"], key=lambda p: p.name):
        total.update(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def sources(path):
    """The bytes of a source and of what it includes."""
    found, left = {}, [path.name]
    while left:
        name = left.pop()
        if name not in found and (path.parent / name).exists():
            found[name] = (path.parent / name).read_bytes()
            left += re.findall(r'^#include "(.+)"', found[name].decode(), flags=re.M)
    return found


def compile_once(nvrtc, path, kept):
    """The PTX of one source, kept in a folder until what it is made of changes."""
    made_of = repr((sorted(sources(path).items()), Path(__file__).read_bytes()))
    file = kept / f"{path.stem}-{hashlib.sha256(made_of.encode()).hexdigest()[:32]}.ptx"
    if not file.exists():
        text = compile_file(nvrtc, path)
        kept.mkdir(exist_ok=True)
        part = file.with_suffix(f".{os.getpid()}")
        part.write_text(text)
        part.rename(file)  # whole, or not at all
    return file.read_text()


def compile_file(nvrtc, path):
    """The PTX of one source."""
    program = ctypes.c_void_p()
    options = [f"--gpu-architecture=compute_{architecture(path.name)}", *OPTIONS, f"-I{path.parent}"]

    def text(what):
        size = ctypes.c_size_t()
        getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        getattr(nvrtc, f"nvrtcGet{what}")(program, buffer)
        return buffer.value.decode()

    nvrtc.nvrtcCreateProgram(ctypes.byref(program), path.read_bytes(), path.name.encode(), 0, None, None)
    array = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
    if nvrtc.nvrtcCompileProgram(program, len(options), array) != 0:
        sys.exit(f"{path.name}:\n{text('ProgramLog')}")
    return text("PTX")


def split(ptx):
    """Yields (kernel, a module with that kernel alone)."""
    ptx = re.sub(r"^\s*//.*\n", "", ptx, flags=re.M)
    head, *kernels = re.split(r"^(?=\.visible \.entry )", ptx, flags=re.M)
    version, *declarations = re.split(r"^(?=\.global|\.extern|\.const)", head, flags=re.M)
    for kernel in kernels:
        used = [d for d in declarations if re.search(rf"(?<![\w$]){re.escape(declared(d))}(?![\w$])", kernel)]
        name = re.match(r"\.visible \.entry (\w+)", kernel)[1]
        yield name, re.sub(r"\n\s*\n+", "\n", version + "".join(used) + kernel)


def declared(declaration):
    """The name that a declaration declares."""
    if declaration.startswith(".extern"):
        return re.search(r"\)\s*(\w+)|\.func (\w+)", declaration)[1]
    return re.search(r"([\w$]+)(\[\d*\])?\s*(=|;)", declaration)[1]


def renumbered(text, back=False):
    """PTX whose numbers of registers and labels are differences, so that code repeats: half as large in a zip. Each is
    less by what the last line before had that begins with one of its kind. ptx.go has the way back, too."""
    before, first, lines = collections.defaultdict(int), {}, []

    def swap(match):
        kind, number = match[1], int(match[2])
        other = number + before[kind] if back else number - before[kind]
        if not first:
            first[kind] = other if back else number
        return f"{kind}{other}"

    for line in text.split("\n"):
        lines.append(re.sub(r"([%_][a-z]*)(-?\d+)", swap, line))
        before.update(first)
        first.clear()
    return "\n".join(lines)


def write(kernels):
    """kernels.zip, the same bytes from the same kernels."""
    with zipfile.ZipFile(HERE / "kernels.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, text in sorted(kernels.items()):
            dense = renumbered(text)
            if renumbered(dense, back=True) != text:
                sys.exit(f"{name}: renumbered PTX does not give the PTX back")
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), dense, zipfile.ZIP_DEFLATED)
    (HERE / "kernels.sum").write_text(digest() + "\n")


def assemble(ptxas, part=""):
    """Assembles each kernel for each target, as a driver does when it loads one."""
    with zipfile.ZipFile(HERE / "kernels.zip") as archive, tempfile.TemporaryDirectory() as folder:
        for entry in (name for name in archive.namelist() if part in name):
            path = Path(folder, f"{entry}.ptx")
            path.write_text(renumbered(archive.read(entry).decode(), back=True))
            for target in (t for t in TARGETS if t >= f"sm_{architecture(entry)}" or len(t) > 5):
                command = [ptxas, "-v", f"-arch={target}", str(path), "-o", f"{folder}/out.cubin"]
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode != 0:
                    sys.exit(f"{entry} for {target}:\n{done.stderr}")
                stack, spills = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores", done.stderr).groups()
                registers = re.search(r"Used (\d+) registers", done.stderr)[1]
                print(f"{entry} {target}: registers {registers}, stack {stack}, spilled {spills}")


if __name__ == "__main__":
    if sys.argv[1] == "--assemble":
        assemble(*sys.argv[2:])
    else:
        library = ctypes.CDLL(sys.argv[1])
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            kept = Path(sys.argv[2])
            texts = list(pool.map(lambda path: compile_once(library, path, kept), sorted(HERE.glob("kernels/*.cu"))))
        found = dict(kernel for text in texts for kernel in split(text))
        write(found)
        print(f"{len(found)} kernels, {(HERE / 'kernels.zip').stat().st_size} bytes")
