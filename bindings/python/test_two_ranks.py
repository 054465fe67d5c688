"""A program of two ranks that writes a checkpoint: for tests of what is installed."""

import scr

scr.init()
assert scr.size() == 2, scr.size()
while scr.have_restart():
    with scr.restart() as ckpt:
        with open(ckpt.route(f"{ckpt.name}/rank_{scr.rank()}")) as f:
            assert f.read() == f"state of rank {scr.rank()}\n"
    break
with scr.output("ckpt.1") as ckpt:
    with open(ckpt.route(f"{ckpt.name}/rank_{scr.rank()}"), "w") as f:
        f.write(f"state of rank {scr.rank()}\n")
scr.finalize()
