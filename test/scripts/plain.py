"""A program in the style of SCR 3.1's module: no with statement, results that are True or False.

It is run twice. The first run writes three checkpoints. In the second rank 1 says that it
cannot use the newest, so that all restart from the one before. With the argument mpi4py,
MPI is mpi4py's to begin and end.
"""

import sys

if "mpi4py" in sys.argv:
    from mpi4py import MPI  # noqa: F401: it begins MPI

import scr


def expect(what, good):
    if not good or rank == 0:
        print("ok" if good else "not ok", what, flush=True)


scr.config("SCR_CHECKPOINT_INTERVAL=1")
scr.init()
rank = scr.rank()

step, tried = 0, []
name = scr.have_restart()
while name is not None:
    tried.append(name)
    expect("start_restart has the name", scr.start_restart() == name)
    with open(scr.route_file(f"{name}/rank_{rank}.txt")) as f:
        step = int(f.read())
    if scr.complete_restart(not (rank == 1 and len(tried) == 1)):
        break
    step = 0
    name = scr.have_restart()

if tried:
    expect("the next older one is offered", tried == ["plain.3", "plain.2"])
    expect("it is what was written", step == 2)
    if rank == 0:
        print("restarted", flush=True)

for step in range(step + 1, 4):
    scr.need_checkpoint()
    scr.start_output(f"plain.{step}", scr.FLAG_CHECKPOINT | scr.FLAG_OUTPUT)
    with open(scr.route_file(f"plain.{step}/rank_{rank}.txt"), "w") as f:
        f.write(str(step))
    expect(f"complete_output {step}", scr.complete_output(True) is True)

scr.start_output("bad", scr.FLAG_CHECKPOINT)
expect("one that is not valid on one rank", scr.complete_output(rank != 0) is False)
expect("get_error says why on all ranks", scr.get_error().startswith("SCR_Complete_output: rank 0: "))
try:
    scr.start_restart()
    good = False
except RuntimeError as e:
    good = "SCR_Start_restart" in str(e)
expect("an error is a RuntimeError with its reason", good)
if tried:
    scr.current("plain.2")
    scr.drop("plain.1")
    scr.delete("plain.3")
expect("should_exit", scr.should_exit() is False)
scr.finalize()
if rank == 0:
    print("end of plain.py", flush=True)
