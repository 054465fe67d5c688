"""Taking part in checkpoints and restarts: the functions of scr_cr.h for programs in Python.

Import it before scr and mpi4py, since libscr_cr.so has to come before the MPI:

    import scr_cr
    from mpi4py import MPI

    step = 0

    def checkpoint():               # in a directory of this rank
        with open("state", "w") as f:
            f.write(str(step))

    def restart():                  # in the directory with what checkpoint has written
        global step
        with open("state") as f:
            step = int(f.read())

    scr_cr.self_register_checkpoint_callback(checkpoint)
    scr_cr.self_register_restart_callback(restart)
    ...
    handle, seq = scr_cr.checkpoint()

With mpi4py, functions that are registered after `from mpi4py import MPI`, which initializes MPI, are
registered by all ranks, and the one for restart, the last, is called at once if there is a
checkpoint. Without mpi4py, mpi_init initializes MPI, and calls a function for restart that has
been registered before.

A function of the program returns None or 0, or another number after an error; an exception is
an error, too, whose traceback is printed. Functions for checkpoints may run on another thread.
The calls raise scr.Error where those of scr_cr.h return an error. comm is a communicator of
mpi4py; None stands for the world.
"""

import atexit
import contextlib
import ctypes
import enum
import os
import sys
import traceback

__all__ = [
    "Event", "State", "inc_register_callback",
    "self_register_checkpoint_callback", "self_register_continue_callback", "self_register_restart_callback",
    "checkpoint", "restart", "migrate", "quiesce_start", "quiesce_end", "quiesce_checkpoint", "quiesce",
    "mpi_init", "mpi_finalize", "library",
]


class Event(enum.IntEnum):
    """When a callback is called; scr_cr.h says what it may do."""

    PRE_CRS_PRE_MPI = 0
    PRE_CRS_POST_MPI = 1
    POST_CRS_PRE_MPI = 2
    POST_CRS_POST_MPI = 3


class State(enum.IntEnum):
    """What happens when a callback is called."""

    PREPARE = 0
    CONTINUE = 1
    RESTART = 2
    ERROR = 3


_TOO_LATE = "import scr_cr before scr and mpi4py, or put libscr_cr.so into LD_PRELOAD: libscr_cr.so has to be loaded before the MPI"


def _path():
    """Returns the path of libscr_cr.so, which is beside libscr.so; or its name."""
    name = "libscr_cr.so"
    asked = os.environ.get("SCR_LIB")
    if asked:
        return os.path.join(asked if os.path.isdir(asked) else os.path.dirname(os.path.abspath(asked)), name)
    here = os.path.dirname(os.path.abspath(__file__))
    for directory in (here, os.path.dirname(here)):
        path = os.path.join(directory, name)
        if os.path.exists(path):
            return path
    return name


def _address(lib, name):
    return ctypes.cast(getattr(lib, name), ctypes.c_void_p).value


def _is_loaded(path):
    try:
        ctypes.CDLL(path, mode=os.RTLD_NOLOAD)
    except OSError:
        return False
    return True


def _load():
    path = _path()
    if not _is_loaded(path) and ("scr" in sys.modules or "mpi4py.MPI" in sys.modules):
        raise ImportError(_TOO_LATE)
    try:
        lib = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    except OSError as e:
        raise ImportError(f"{e} (set SCR_LIB to the path of libscr.so, which has libscr_cr.so beside it)") from e
    if not hasattr(lib, "SCR_CR_Checkpoint"):
        raise ImportError(f"{path} is not a libscr_cr.so")
    if _address(ctypes.CDLL(None), "MPI_Init") != _address(lib, "MPI_Init"):
        raise ImportError(_TOO_LATE)
    return lib


_lib = _load()

import scr  # noqa: E402  after libscr_cr.so, because of the order in which the loader finds MPI_Init

if _address(scr.library(), "SCR_Init") != _address(_lib, "SCR_Init"):
    raise ImportError("scr.py has loaded another libscr.so than libscr_cr.so: set SCR_LIB")
scr._mpi.lib = _lib  # so that its calls of MPI are those of libscr_cr.so


def library():
    """Returns libscr_cr.so as a ctypes.CDLL, which also has the functions of its MPI: those that it wraps, and the others."""
    return _lib


_INC = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int)
_SAVE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_void_p))
_SIMPLE = ctypes.CFUNCTYPE(ctypes.c_int)
_HANDLE = type(scr._mpi.world)  # of communicators and infos

_lib.SCR_CR_INC_register_callback.argtypes = [ctypes.c_int, _INC, ctypes.POINTER(ctypes.c_void_p)]
_lib.SCR_CR_self_register_checkpoint_callback.argtypes = [_SAVE]
_lib.SCR_CR_self_register_continue_callback.argtypes = [_SIMPLE]
_lib.SCR_CR_self_register_restart_callback.argtypes = [_SIMPLE]
_lib.SCR_CR_Checkpoint.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_int), _HANDLE]
_lib.SCR_CR_Restart.argtypes = [ctypes.c_char_p, ctypes.c_int, _HANDLE]
_lib.SCR_CR_Migrate.argtypes = [_HANDLE, ctypes.c_char_p, ctypes.c_int, _HANDLE]
_lib.SCR_CR_Quiesce_start.argtypes = _lib.SCR_CR_Quiesce_end.argtypes = [_HANDLE, _HANDLE]
_lib.SCR_CR_Quiesce_checkpoint.argtypes = [_HANDLE, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_int), _HANDLE]


def _no_info():
    """Returns MPI_INFO_NULL: an address in Open MPI, a number in MPICH."""
    try:
        return _HANDLE(ctypes.addressof(ctypes.c_char.in_dll(_lib, "ompi_mpi_info_null")))
    except ValueError:
        return _HANDLE(0x1C000000)


_NO_INFO = _no_info()


def _comm(comm):
    return scr._mpi.world if comm is None else scr._handle(comm)


# ------------------------------------------------------------------ functions of the program

_kept = []  # functions that C may call stay as long as the process


def _keep(kind, function):
    """Returns what C calls for a function of the program; None is none."""
    pointer = kind() if function is None else function if isinstance(function, kind) else kind(function)
    _kept.append(pointer)
    return pointer


def _result(function, *arguments):
    """Calls a function of the program for C, which no exception can leave."""
    try:
        value = function(*arguments)
        return 0 if value is None else int(value)
    except BaseException:  # also SystemExit: C decides what is next
        traceback.print_exc()
        return 1


def inc_register_callback(event, function):
    """Registers function(event, state) for an event, and returns the one before it.

    function should call that, with the same arguments, before or after its own work. It may also be
    one that this call has returned, or None for none. Not collective.
    """
    if function is None or isinstance(function, _INC):
        pointer = _keep(_INC, function)
    else:
        pointer = _keep(_INC, lambda e, s: _result(function, Event(e), State(s)))
    previous = ctypes.c_void_p()
    scr._check(_lib.SCR_CR_INC_register_callback(event, pointer, ctypes.byref(previous)), "SCR_CR_INC_register_callback")
    return _INC(previous.value)


def self_register_checkpoint_callback(function):
    """Registers function(), which writes what a restart needs to files in the working directory.

    It may return a command for a shell, a str or a path, which scr_restart runs on each rank in place of the
    program, if it is the same on all.
    """
    commands = []  # the library copies it after the function has returned

    def save(command):
        def call():
            value = function()
            if isinstance(value, (str, bytes, os.PathLike)):
                commands[:] = [ctypes.create_string_buffer(scr._bytes(value))]
                command[0] = ctypes.addressof(commands[0])
                return 0
            return value

        return _result(call)

    pointer = _keep(_SAVE, None if function is None else save)
    scr._check(_lib.SCR_CR_self_register_checkpoint_callback(pointer), "SCR_CR_self_register_checkpoint_callback")


def self_register_continue_callback(function):
    """Registers function(), which is called after each checkpoint, also after one that has failed."""
    pointer = _keep(_SIMPLE, None if function is None else lambda: _result(function))
    scr._check(_lib.SCR_CR_self_register_continue_callback(pointer), "SCR_CR_self_register_continue_callback")


def self_register_restart_callback(function):
    """Registers function(), which reads what the one for checkpoints has written."""
    pointer = _keep(_SIMPLE, None if function is None else lambda: _result(function))
    scr._check(_lib.SCR_CR_self_register_restart_callback(pointer), "SCR_CR_self_register_restart_callback")


# -------------------------------------------------------------------- checkpoint and restart


def _made(call, *arguments):
    """Makes a checkpoint and returns its handle and number."""
    handle, seq = ctypes.c_void_p(), ctypes.c_int()
    scr._check(call(*arguments, ctypes.byref(handle), ctypes.byref(seq), _NO_INFO), call.__name__)
    try:
        return os.fsdecode(ctypes.string_at(handle.value)), seq.value
    finally:
        scr._free(handle)


def checkpoint():
    """Writes a checkpoint by the function of the program; returns (handle, seq) for restart and scr_restart."""
    return _made(_lib.SCR_CR_Checkpoint)


def restart(handle, seq):
    """Asks scr_run to end the run, and to begin the next one from a checkpoint. Not collective."""
    scr._check(_lib.SCR_CR_Restart(scr._bytes(handle), seq, _NO_INFO), "SCR_CR_Restart")


def migrate(hostname=None, rank=-1, off_node=False, comm=None):
    """Asks scr_run to move this rank of comm to the node hostname, or to that of another rank; or, with off_node, all of its ranks to spare nodes."""
    info = _NO_INFO
    if off_node:
        info = _HANDLE()
        scr._mpi.call("MPI_Info_create", ctypes.byref(info))
        scr._mpi.call("MPI_Info_set", info, b"CR_OFF_NODE", b"true")
    try:
        name = None if hostname is None else scr._bytes(hostname)
        scr._check(_lib.SCR_CR_Migrate(_comm(comm), name, rank, info), "SCR_CR_Migrate")
    finally:
        if off_node:
            scr._mpi.call("MPI_Info_free", ctypes.byref(info))


# ------------------------------------------------------------------------ messages at rest


def quiesce_start(comm=None):
    """Brings the messages of comm to rest; until quiesce_end the program must not send over it."""
    scr._check(_lib.SCR_CR_Quiesce_start(_comm(comm), _NO_INFO), "SCR_CR_Quiesce_start")


def quiesce_end(comm=None):
    """Lets the program send again."""
    scr._check(_lib.SCR_CR_Quiesce_end(_comm(comm), _NO_INFO), "SCR_CR_Quiesce_end")


def quiesce_checkpoint(comm=None):
    """Is checkpoint between quiesce_start and quiesce_end of the world."""
    return _made(_lib.SCR_CR_Quiesce_checkpoint, _comm(comm))


@contextlib.contextmanager
def quiesce(comm=None):
    """Keeps messages at rest in a with statement."""
    quiesce_start(comm)
    try:
        yield
    finally:
        quiesce_end(comm)


# ------------------------------------------------------------------------------------- MPI


def mpi_init():
    """Initializes MPI, unless it is. A program that calls scr.init, or imports mpi4py, need not call it."""
    scr._mpi.begin()


def mpi_finalize():
    """Finalizes MPI, if mpi_init or scr.init has initialized it. Collective."""
    scr._mpi.end()


@atexit.register
def _end():
    # mpi4py finalizes MPI after Python has ended, when no function of the program can be called any more.
    if _kept and "mpi4py.MPI" in sys.modules and scr._mpi.number("MPI_Initialized") and not scr._mpi.number("MPI_Finalized"):
        scr._mpi.call("MPI_Finalize")
