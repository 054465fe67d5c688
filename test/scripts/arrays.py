"""Arrays that are named, in Python: arrays.py FROM TO writes a version for each step, and checks what it finds."""

import array
import ctypes
import sys

import scr

first, last = int(sys.argv[1]), int(sys.argv[2])
scr.init()
rank = scr.rank()
field = array.array("d", [0.0] * (500 + rank))
few = bytearray(8)
scr.protect("field", field)
scr.protect("few", few)
scr.protect("few", few, group="rare")


def fill(step):
    for i in range(len(field)):
        field[i] = step * 1000.0 + rank + i
    few[:] = step.to_bytes(8, "little")


def right(step):
    return few == step.to_bytes(8, "little") and all(x == step * 1000.0 + rank + i for i, x in enumerate(field))


version = scr.newest("model")
assert version == (first or None), version
if version is not None:
    scr.restore("model", version)
    assert right(version), version
    assert scr.newest("rare") == 1 and scr.newest("model", version - 1) != version
    fill(0)
    scr.restore("rare", 1)
    assert few == (1).to_bytes(8, "little") and field[3] == rank + 3  # which has no field
    try:
        scr.restore("model", 77)
        raise SystemExit("a version that is not there was restored")
    except scr.Error as e:
        assert "there is no version 77 of model" in str(e) or rank > 0, e
    scr.protect("few", bytearray(7))
    try:
        scr.restore("model", version)
        raise SystemExit("a variable of 8 bytes was restored into 7")
    except scr.Error as e:
        assert "variable 'few' has 8 bytes" in str(e), e
    scr.protect("few", few)
else:
    fill(1)
    scr.checkpoint("rare", 1)
for step in range(first + 1, last + 1):
    fill(step)
    scr.checkpoint("model", step)
for wrong in (b"read only", memoryview(bytearray(9))[::2], (ctypes.py_object * 2)()):
    try:
        scr.protect("wrong", wrong)
        raise SystemExit(f"{wrong} was protected")
    except ValueError:
        pass
for wrong in (-1, 2**31, 2**32 + first + 1):
    for call in (scr.checkpoint, scr.restore, scr.newest):
        try:
            call("model", wrong)
            raise SystemExit(f"{wrong} was taken for a version")
        except ValueError:
            pass
try:
    few.append(1)
    raise SystemExit("an array was resized that is protected")
except BufferError:
    pass
scr.protect("table", memoryview(bytearray(64)).cast("d", [2, 4]))  # two dimensions
scr.checkpoint("table", 1)
scr.unprotect("field")
scr.unprotect("few")
few.append(1)
scr.finalize()
if rank == 0:
    print("end", last)
