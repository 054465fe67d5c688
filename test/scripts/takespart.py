"""The program of takespart.f90 in Python. "mpi4py" as the last argument: with that."""

import ctypes
import os
import sys

import scr_cr
import scr

with_mpi4py = sys.argv[-1] == "mpi4py"
mode = sys.argv[1]
given = sys.argv[2] if len(sys.argv) > 2 else ""
rank, step, restarted, refuses = -1, 0, False, False
made = []


def say(what, number):
    os.write(1, f"{rank} {what} {int(number)}\n".encode())  # one write: lines of ranks stay whole


def save():
    with open("state", "x") as f:
        f.write(f"{step} {rank}")
    return "takespart on"


def went_on():
    say("continues", step)


def restore():
    global step, rank, restarted
    with open("state") as f:
        step, rank = map(int, f.read().split())
    restarted = True


def lower(event, state):
    say("lower", 10 * event + state)
    if refuses and event is scr_cr.Event.PRE_CRS_POST_MPI:
        raise OSError("refused")


def upper(event, state):
    say("upper", 10 * event + state)
    return below[event](event, state)


def fails(call, *arguments):
    try:
        call(*arguments)
    except scr.Error as e:
        say(str(e).split(":")[0].split()[0] + " fails", 1)
        return
    say(f"{call.__name__} fails", 0)


def checkpoint(call=scr_cr.checkpoint):
    try:
        handle, seq = call()
    except scr.Error as e:
        say("checkpoint", -1)
        return
    say("checkpoint", seq)
    if handle != os.environ["SCR_PREFIX"]:
        say(f"handle {handle}", 1)
    made.append((handle, seq))


def register():
    scr_cr.self_register_checkpoint_callback(save)
    scr_cr.self_register_continue_callback(went_on)
    scr_cr.self_register_restart_callback(restore)


def mpi(name, *arguments):
    return getattr(scr_cr.library(), name)(*arguments)


class Plain:
    """The calls of MPI that are needed, without mpi4py."""

    world = scr._mpi.world
    try:
        integer = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(scr_cr.library(), "ompi_mpi_int")))
        returns = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(scr_cr.library(), "ompi_mpi_errors_return")))
        ignored = ctypes.c_void_p(0)
    except ValueError:
        integer, returns, ignored = 0x4C000405, 0x54000001, ctypes.c_void_p(1)

    def send(self, value):
        if mpi("MPI_Send", ctypes.byref(ctypes.c_int(value)), 1, self.integer, 1, 7, self.world) != 0:
            raise RuntimeError("MPI_Send")

    def receive(self):
        value = ctypes.c_int()
        mpi("MPI_Recv", ctypes.byref(value), 1, self.integer, 0, 7, self.world, self.ignored)
        return value.value

    def return_errors(self):
        mpi("MPI_Comm_set_errhandler", self.world, self.returns)

    def barrier(self):
        mpi("MPI_Barrier", self.world)

    def abort(self):
        mpi("MPI_Abort", self.world, 4)


class With:
    """... and with it."""

    def send(self, value):
        MPI.COMM_WORLD.send(value, dest=1, tag=7)

    def receive(self):
        return MPI.COMM_WORLD.recv(source=0, tag=7)

    def return_errors(self):
        MPI.COMM_WORLD.Set_errhandler(MPI.ERRORS_RETURN)

    def barrier(self):
        MPI.COMM_WORLD.Barrier()

    def abort(self):
        MPI.COMM_WORLD.Abort(4)


if with_mpi4py:
    from mpi4py import MPI
else:
    register()
    scr_cr.mpi_init()
world = With() if with_mpi4py else Plain()
place, whose = scr.rank(), rank
rank = place
if with_mpi4py:
    register()  # all ranks; the restart is in it
    place, whose, rank = rank, rank, scr.rank()
    if not restarted:
        whose = -1
if whose not in (-1, rank):
    say("has the state of another rank than", rank)
if restarted:
    say("restarts", step)
if mode == "self":
    while step < int(given):
        step += 1
        if step % 2 == 0:
            checkpoint()
    step = int(given) + 1  # as a loop of Fortran ends
elif mode in ("inc", "refuse"):
    refuses = mode == "refuse" and rank == scr.size() - 1
    below = {}
    for event in scr_cr.Event:
        scr_cr.inc_register_callback(event, lower)
        below[event] = scr_cr.inc_register_callback(event, upper)
    try:
        scr_cr.inc_register_callback(4, lower)
    except scr.Error:
        say("wrong event", 1)
    checkpoint()
elif mode == "again":
    asked = False
    step += 1
    while step <= 6 or asked:
        if step % 2 == 0 and not asked:
            checkpoint()
        there = os.path.exists(given)
        world.barrier()
        if step == 5 and not there:
            asked = True
            if rank == 1:
                open(given, "x").close()
                try:
                    scr_cr.restart(*made[0])
                except scr.Error:
                    world.abort()
        step += 1
elif mode == "alone":
    checkpoint()
    fails(scr_cr.restart, *made[0])
    fails(scr_cr.migrate)
    fails(lambda: scr_cr.migrate(off_node=True))
    fails(scr_cr.quiesce_end)
    fails(scr_cr.quiesce_checkpoint)
elif mode == "quiet":
    if not restarted:
        if rank == 0:
            world.send(4711)
        with scr_cr.quiesce():
            world.return_errors()
            if rank == 0:
                try:
                    world.send(1)
                    say("send fails", 0)
                except Exception:
                    say("send fails", 1)
            checkpoint(scr_cr.quiesce_checkpoint)
    if rank == 1:
        say("receives", world.receive())
say("ends", step)
if not with_mpi4py:
    scr_cr.mpi_finalize()
