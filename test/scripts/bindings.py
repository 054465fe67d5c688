"""Every function of scr.py under mpirun, in two runs: the second restarts.

Rank 0 says "ok" or "not ok" of each check. With the argument mpi4py, MPI is
mpi4py's to begin and end.
"""

import ctypes
import os
import sys

theirs = sys.argv[1:] == ["mpi4py"]
if theirs:
    from mpi4py import MPI

import scr  # noqa: E402: mpi4py's MPI is to be there first


def expect(what, good):
    if not good or rank == 0:
        print("ok" if good else "not ok", what, flush=True)


def fails(function, *arguments):
    try:
        function(*arguments)
    except scr.Error as e:
        if isinstance(e, RuntimeError) and str(e).startswith("SCR_") and ": " in str(e):
            return True
        print("not ok the reason is in the exception:", e, flush=True)
    return False


def split(color, key):
    """Splits the world without mpi4py."""
    comm = scr.library().SCR_Init_comm.argtypes[0]
    world, part = scr._mpi.world, comm()
    if scr.library().MPI_Comm_split(world, int(color), key, ctypes.byref(part)) != 0:
        raise RuntimeError("MPI_Comm_split")
    return part


def write(path):
    with open(path, "w") as f:
        f.write(f"rank {rank}")


rank = int(os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["PMI_RANK"])
expect("version", scr.get_version() == "v3.1.0")
expect("set", scr.config("SCR_CHECKPOINT_INTERVAL=2") is None)
expect("ask", scr.config("SCR_CHECKPOINT_INTERVAL") == "2")
expect("ask for nothing", scr.config("SCR_NO_SUCH_PARAMETER") is None)
expect("ask for a default", scr.config("SCR_FETCH") is None)
expect("take back", scr.config("MINE=a=b") is None and scr.config("MINE") == "a=b" and scr.config("MINE=") is None and scr.config("MINE") is None)
expect("items", scr.config("GROUPS=a Power=x") is None and scr.config("GROUPS=b Power=y") is None and scr.config("GROUPS=b Power") == "y")
expect("an ambiguous question", scr.config("GROUPS") is None and "GROUPS is ambiguous" in scr.get_error())
expect("take all items back", scr.config("GROUPS=") is None and scr.config("GROUPS=b Power") is None)
expect("a bad text", scr.config("A B") is None and "NAME=VALUE" in scr.get_error())
expect("before init", fails(scr.start_output, "early"))
if not theirs:
    expect("without MPI", fails(scr.init, False))
if theirs:
    job = MPI.COMM_WORLD.Split(0, -MPI.COMM_WORLD.Get_rank())  # the other way round
    scr.init(comm=job)
    job.Free()
else:
    scr.init()
expect("init twice", fails(scr.init))
expect("set too late", scr.config("SCR_FLUSH=2") is None and "before SCR_Init" in scr.get_error())
expect("ask later", scr.config("SCR_CHECKPOINT_INTERVAL") == "2" and scr.config("SCR_FLUSH_TYPE") is None)
expect("rank and size", scr.rank() == (3 - rank if theirs else rank) and scr.size() == 4)
rank = scr.rank()

name = scr.have_restart()
if name:
    expect("the newest", name == "py/ü 3")
    try:
        with scr.restart() as ckpt:
            expect("its name", ckpt.name == name)
            if rank == 2:
                raise KeyError("not what it should be")
        good = False
    except scr.Error as e:
        good = isinstance(e.__cause__, KeyError) == (rank == 2)
    expect("an exception on one rank is an Error on all, with its cause", good)
    expect("then the one before", scr.have_restart() == "py/2")
    with scr.restart() as ckpt:
        path = ckpt.route(f"py/2/{rank}")
        expect("a place in the cache", not path.startswith(os.getcwd()))
        with open(path) as f:
            expect("what was written", f.read() == f"rank {rank}")
    if rank == 0:
        print("restarted", flush=True)
else:
    expect("start without a checkpoint", fails(scr.start_restart))

expect("need", [scr.need_checkpoint() for _ in range(4)] == [False, True, False, True])
expect("exit", scr.should_exit() is False)
expect("route outside of a phase", scr.route_file("somewhere") == "somewhere")
expect("route with a name that is too long", fails(scr.route_file, "n" * 2000))

with scr.output("py/out", scr.FLAG_OUTPUT) as out:
    write(out.route(f"py/out/{rank}"))
try:
    with scr.output("py/bad") as ckpt:
        write(ckpt.route(f"py/bad/{rank}"))
        if rank == 1:
            raise OSError("no space")
    good = False
except scr.Error as e:
    good = isinstance(e.__cause__, OSError) == str(e).endswith(" (OSError: no space)") == (rank == 1)
expect("a failed output is an Error on all ranks", good)
try:
    with scr.output("py/bad") as ckpt:
        ckpt.valid = rank != 3
    good = False
except scr.Error as e:
    good = e.__cause__ is None
expect("... and so is one that is not valid", good)
try:
    with scr.output("py/bad") as ckpt:
        raise SystemExit("stop")
except SystemExit:
    good = True
except scr.Error:
    good = False
expect("what is no ordinary exception continues", good)
expect("a name that is too long", fails(scr.start_output, "x" * scr.MAX_FILENAME))
expect("start twice", not fails(scr.start_output, "py/2") and fails(scr.start_output, "py/2"))
write(scr.route_file(f"py/2/{rank}".encode()))
expect("complete", scr.complete_output() is True)
expect("complete twice", scr.complete_output() is False)
if theirs:
    some, everybody = MPI.COMM_WORLD.Split(rank == 3, rank), MPI.COMM_WORLD.Split(0, -rank)
else:
    some, everybody = split(rank == 3, rank), split(0, -rank)
expect("recover without some processes", fails(scr.recover, some) and "the new communicator lacks " in scr.get_error())
expect("... then the job is as it was", scr.rank() == rank and not scr.should_exit())
with scr.output("py/ü 3") as ckpt:
    write(ckpt.route(f"py/ü 3/{rank}"))

expect("current of what is not there is no error", not fails(scr.current, "none"))
scr.drop("none")
scr.delete("py/out")
try:
    scr.drop("a\0b")
    good = False
except ValueError:
    good = True
expect("a NUL in a name", good)
before = scr.rank()
scr.library().MPI_Barrier(scr._mpi.world)  # no rank is in the call before
scr.recover(everybody)
rank = scr.rank()
expect("recover with all", rank == 3 - before and scr.size() == 4)
expect("... restarts from the newest", scr.have_restart() == "py/ü 3")
with scr.restart() as ckpt:
    with open(ckpt.route(f"py/ü 3/{rank}")) as f:
        expect("... with the file of its new number", f.read() == f"rank {rank}")
scr.finalize()
rank = before
expect("after finalize", fails(scr.need_checkpoint))
if theirs:
    expect("MPI is still mpi4py's", MPI.COMM_WORLD.allreduce(1) == 4)
    part = MPI.COMM_WORLD.Split(0, -rank)
    scr.init(comm=part)
    part.Free()
    expect("a job on a communicator", not scr.should_exit())
    scr.finalize()
if rank == 0:
    print("end of bindings.py", flush=True)
