"""Scalable checkpoint/restart for MPI programs in Python.

A program uses it like this, on all ranks:

    import scr

    scr.config("SCR_CHECKPOINT_INTERVAL=10")
    scr.init()

    state = None
    while state is None and scr.have_restart():
        try:
            with scr.restart() as ckpt:
                with open(ckpt.route(f"{ckpt.name}/rank_{scr.rank()}"), "rb") as f:
                    state = f.read()
        except scr.Error:
            state = None            # some rank could not read it: try the next older one

    for step in range(first(state), last):
        ...
        if scr.need_checkpoint():
            with scr.output(f"ckpt.{step}") as ckpt:
                with open(ckpt.route(f"{ckpt.name}/rank_{scr.rank()}"), "wb") as f:
                    f.write(state)
        if scr.should_exit():
            break

    scr.finalize()

Instead of files, a program can name its arrays, after init():

    scr.protect("field", field)         # an array of numpy, a bytearray, ...
    version = scr.newest("model")       # None: there is no checkpoint
    if version is not None:
        scr.restore("model", version)   # the arrays have the values that they had
    ...
        scr.checkpoint("model", step)

Each other function calls the function of the same name in scr.h, and raises Error where
that returns an error; complete_output, complete_checkpoint and complete_restart return
False instead, as those of SCR 3.1's module do. All but route_file are collective. Only libscr.so is needed;
a program may use mpi4py if it is built for the same MPI as libscr.so.

$SCR_LIB names libscr.so, or its directory. If it is not set, libscr.so is searched
for in the directory of this file, in the one above, and then by the system's loader.
"""

import ctypes
import os
import re
import sys
import zlib

__all__ = [
    "FLAG_NONE", "FLAG_CHECKPOINT", "FLAG_OUTPUT", "MAX_FILENAME", "Error",
    "init", "finalize", "recover", "get_version", "get_error", "config", "route_file",
    "have_restart", "start_restart", "complete_restart", "restart", "Restart",
    "need_checkpoint", "start_output", "complete_output", "output", "Output",
    "start_checkpoint", "complete_checkpoint",
    "protect", "unprotect", "checkpoint", "newest", "restore",
    "should_exit", "current", "drop", "delete", "rank", "size", "library",
]

SUCCESS = 0
MAX_FILENAME = 1024

# The uses of a dataset; combine them with |.
FLAG_NONE = 0
FLAG_CHECKPOINT = 1  # the program can restart from it
FLAG_OUTPUT = 2  # it is always copied to the prefix directory


class Error(RuntimeError):
    """A call failed, for the reason that the exception tells; one rank also prints it on stderr.

    A collective call fails on all ranks or on none, so that all ranks can catch it.
    """


# ------------------------------------------------------------------ the library


def _path():
    """Returns the path of libscr.so, or its name if the system's loader has to find it."""
    name = "libscr.so"
    asked = os.environ.get("SCR_LIB")
    if asked:
        return os.path.join(asked, name) if os.path.isdir(asked) else os.path.abspath(asked)
    here = os.path.dirname(os.path.abspath(__file__))
    for directory in (here, os.path.dirname(here)):
        path = os.path.join(directory, name)
        if os.path.exists(path):
            return path
    return name


def _open_mpi(lib):
    """Returns the address of Open MPI's world; None for MPICH and MPIs with MPICH's binary interface."""
    try:
        return ctypes.addressof(ctypes.c_char.in_dll(lib, "ompi_mpi_comm_world"))
    except ValueError:
        return None


def _mpi_comm(lib):
    """Returns the type of communicators, which are addresses in Open MPI and numbers in MPICH."""
    return ctypes.c_void_p if _open_mpi(lib) else ctypes.c_int


def _load():
    path = _path()
    try:
        # An MPI loads components of its own, which need the MPI's symbols to be global.
        lib = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    except OSError as e:
        raise ImportError(f"{e} (set SCR_LIB to the path of libscr.so)") from e
    text, number, pointer = ctypes.c_char_p, ctypes.c_int, ctypes.POINTER(ctypes.c_int)
    for name, arguments in {
        "SCR_Init": [], "SCR_Init_comm": [_mpi_comm(lib)], "SCR_Finalize": [], "SCR_Recover": [_mpi_comm(lib)], "SCR_Get_version": [], "SCR_Get_error": [], "SCR_Config": [text],
        "SCR_Route_file": [text, text],
        "SCR_Have_restart": [pointer, text], "SCR_Start_restart": [text], "SCR_Complete_restart": [number],
        "SCR_Need_checkpoint": [pointer], "SCR_Start_output": [text, number], "SCR_Complete_output": [number],
        "SCR_Start_checkpoint": [], "SCR_Complete_checkpoint": [number],
        "goscr_variables_protect": [number, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, text], "goscr_variables_unprotect": [number, text],
        "goscr_variables_checkpoint": [text, number], "goscr_variables_restart": [text, number],
        "goscr_variables_find": [text, number, number, pointer],
        "SCR_Should_exit": [pointer], "SCR_Current": [text], "SCR_Drop": [text], "SCR_Delete": [text],
    }.items():
        try:
            function = getattr(lib, name)
        except AttributeError as e:
            raise ImportError(f"{path} is not a libscr.so: {e}") from e
        function.argtypes = arguments
    lib.SCR_Get_version.restype = lib.SCR_Get_error.restype = ctypes.c_char_p
    lib.SCR_Config.restype = ctypes.c_void_p  # not c_char_p: it has to be freed
    return lib


_lib = _load()


def library():
    """Returns libscr.so as a ctypes.CDLL, which also has the functions of its MPI."""
    return _lib


def _bytes(text):
    """Encodes a str, bytes or path for the library."""
    data = os.fsencode(text)
    if b"\0" in data:
        raise ValueError(f"{text!r} contains a NUL")
    return data


def _check(code, call):
    if code != SUCCESS:
        raise Error(_reason(call))


def _reason(call):
    """Returns why the call that has just been made has failed."""
    text = _named(get_error())
    return text if text.startswith(call + ": ") else f"{call} failed"


def _ask(function):
    flag = ctypes.c_int()
    _check(function(ctypes.byref(flag)), function.__name__)
    return flag.value != 0


# -------------------------------------------------------------------------- MPI


class _MPI:
    """The functions of libscr.so's MPI that a program without mpi4py needs."""

    ours = False  # MPI was initialized here, and so must be finalized here
    place = None  # rank and size in the job, unless the job is the whole world

    def __init__(self, lib):
        self.lib = lib
        self.world = lib.SCR_Init_comm.argtypes[0](_open_mpi(lib) or 0x44000000)

    def call(self, name, *arguments):
        if getattr(self.lib, name)(*arguments) != 0:
            raise Error(f"{name} failed")

    def number(self, name, *arguments):
        """Calls a function that stores an int through its last argument."""
        value = ctypes.c_int()
        self.call(name, *arguments, ctypes.byref(value))
        return value.value

    def begin(self):
        if self.number("MPI_Initialized"):
            return
        theirs = sys.modules.get("mpi4py.MPI")
        if theirs is not None and theirs.Is_initialized():
            raise Error("mpi4py is built for another MPI than libscr.so: " + theirs.Get_library_version().split("\n")[0])
        self.call("MPI_Init", None, None)
        self.ours = True

    def end(self):
        if self.ours:
            self.ours = False
            self.call("MPI_Finalize")


_mpi = _MPI(_lib)


def rank():
    """Returns the rank of the caller in the job. Call it after MPI is initialized."""
    return _mpi.place[0] if _mpi.place else _mpi.number("MPI_Comm_rank", _mpi.world)


def size():
    """Returns the number of ranks of the job. Call it after MPI is initialized."""
    return _mpi.place[1] if _mpi.place else _mpi.number("MPI_Comm_size", _mpi.world)


# ---------------------------------------------------------------- begin and end


def _handle(comm):
    """Returns the MPI_Comm of a communicator of mpi4py, or of a call of library()'s MPI."""
    if isinstance(comm, type(_mpi.world)):
        return comm
    return type(_mpi.world).from_address(sys.modules["mpi4py.MPI"]._addressof(comm))


def init(mpi=True, comm=None):
    """Starts the library.

    Unless mpi is false, init initializes MPI if nothing has done so before, and then
    finalize finalizes it. The job is all ranks, or the ranks of comm, which is a
    communicator of mpi4py, or, without mpi4py, a handle as the functions of library() take it.
    """
    if mpi:
        _mpi.begin()
    if comm is None:
        _check(_lib.SCR_Init(), "SCR_Init")
        return
    handle = _handle(comm)
    _check(_lib.SCR_Init_comm(handle), "SCR_Init_comm")
    _take(handle)


def _take(handle):
    _mpi.place = _mpi.number("MPI_Comm_rank", handle), _mpi.number("MPI_Comm_size", handle)


def finalize():
    """Stops the library, and MPI if init has initialized it, even if it raises Error."""
    try:
        _check(_lib.SCR_Finalize(), "SCR_Finalize")
    finally:
        _mpi.place = None
        _mpi.end()


def recover(repaired=None):
    """Continues over the ranks of a communicator, given as to init, after ranks have died or the library has failed.

    What the program was writing or reading is given up, and have_restart names the newest
    checkpoint. A communicator that lacks processes of the job needs an MPI that continues
    without them, which Open MPI 5 with ULFM does, if mpirun --with-ft ulfm has started it; otherwise Error is
    raised, and the job is as it was. New processes call init with the same communicator.
    """
    handle = _mpi.world if repaired is None else _handle(repaired)
    _check(_lib.SCR_Recover(handle), "SCR_Recover")
    _take(handle)


def get_version():
    """Returns the version of the library, for instance "v3.1.0"."""
    return _lib.SCR_Get_version().decode()


def get_error():
    """Returns why the last call that failed has failed, also on ranks that do not print it; "" if none has."""
    return os.fsdecode(_lib.SCR_Get_error())


def config(text):
    """Sets or queries a parameter.

    Before init, "NAME=VALUE" sets a parameter for this run, and "NAME=" unsets it.
    "NAME" queries it: the result is its value, or None if it has none.
    """
    address = _lib.SCR_Config(_bytes(text))
    if address is None:
        return None
    try:
        return os.fsdecode(ctypes.string_at(address))
    finally:
        _free(address)


_free = ctypes.CDLL(None).free
_free.argtypes, _free.restype = [ctypes.c_void_p], None


# -------------------------------------------------------------------- any phase


def route_file(name):
    """Returns the path under which to open a file. Not collective."""
    path = ctypes.create_string_buffer(MAX_FILENAME)
    _check(_lib.SCR_Route_file(_bytes(name), path), "SCR_Route_file")
    return os.fsdecode(path.value)


class _Phase:
    """A phase of the program between a start function and its complete function."""

    name = None  # of the dataset
    valid = True  # set it to False if this rank's files cannot be used

    def route(self, name):
        """Returns the path under which to open a file."""
        return route_file(name)

    def _leave(self, error, complete, call):
        """Ends the phase on all ranks, even if only some of them have met an error.

        Then all ranks raise Error. On a rank that has met an exception, that is the
        cause of the Error. Exceptions such as KeyboardInterrupt, which are not of
        class Exception, are raised again instead.
        """
        if not complete(self.valid and error is None):
            if error is None:
                raise Error(_reason(call))
            if isinstance(error, Exception):
                raise Error(f"{_reason(call)} ({type(error).__name__}: {error})") from error
        return False


# ---------------------------------------------------------------------- restart


def have_restart():
    """Returns the name of the checkpoint to restart from, None if there is none."""
    flag, name = ctypes.c_int(), ctypes.create_string_buffer(MAX_FILENAME)
    _check(_lib.SCR_Have_restart(ctypes.byref(flag), name), "SCR_Have_restart")
    return os.fsdecode(name.value) if flag.value else None


def start_restart():
    """Begins to read the checkpoint that have_restart has named, and returns its name."""
    name = ctypes.create_string_buffer(MAX_FILENAME)
    _check(_lib.SCR_Start_restart(name), "SCR_Start_restart")
    return os.fsdecode(name.value)


def complete_restart(valid=True):
    """Ends reading. If valid is false on any rank, all return False, and have_restart names an older checkpoint."""
    return _lib.SCR_Complete_restart(bool(valid)) == SUCCESS


class Restart(_Phase):
    """The context manager that restart returns."""

    def __enter__(self):
        self.name = start_restart()
        return self

    def __exit__(self, kind, error, traceback):
        return self._leave(error, complete_restart, "SCR_Complete_restart")


def restart():
    """Reads the checkpoint that have_restart has named, in a with statement.

    An exception in its block on any rank raises Error on all ranks. The checkpoint is
    then not offered again.
    """
    return Restart()


# ---------------------------------------------------------- checkpoints, output


def need_checkpoint():
    """Returns True if it is time for a checkpoint."""
    return _ask(_lib.SCR_Need_checkpoint)


def start_output(name=None, flags=FLAG_CHECKPOINT):
    """Begins to write a dataset. If name is None, the library makes a name."""
    _check(_lib.SCR_Start_output(None if name is None else _bytes(name), flags), "SCR_Start_output")


def complete_output(valid=True):
    """Ends writing. If valid is false on any rank, the dataset is dropped and all return False."""
    return _lib.SCR_Complete_output(bool(valid)) == SUCCESS


class Output(_Phase):
    """The context manager that output returns."""

    def __init__(self, name, flags):
        self.name, self.flags = name, flags

    def __enter__(self):
        start_output(self.name, self.flags)
        return self

    def __exit__(self, kind, error, traceback):
        return self._leave(error, complete_output, "SCR_Complete_output")


def output(name=None, flags=FLAG_CHECKPOINT):
    """Writes a dataset, in a with statement.

    An exception in its block on any rank drops the dataset, and raises Error on all
    ranks.
    """
    return Output(name, flags)


def start_checkpoint():
    """Begins to write a checkpoint with a name made by the library."""
    _check(_lib.SCR_Start_checkpoint(), "SCR_Start_checkpoint")


def complete_checkpoint(valid=True):
    """Completes the checkpoint that start_checkpoint began. Returns what complete_output does."""
    return _lib.SCR_Complete_checkpoint(bool(valid)) == SUCCESS


# ------------------------------------------------------------------------ other


# ------------------------------------------------------------------ variables

# The memory of the arrays that are protected, by name and group. Names, by id.
_arrays = {}
_ids = {}


def _id(name):
    """Returns the number of a variable in a file: the same for a name in every run."""
    number = zlib.crc32(_bytes(name)) & 0x7FFFFFFF
    if _ids.setdefault(number, name) != name:
        raise ValueError(f"the names {_ids[number]!r} and {name!r} have the same number: choose another one")
    return number


def _named(text):
    """Returns a message with the names of variables in place of their numbers."""
    return re.sub(r"\bvariable (\d+)\b", lambda m: f"variable {_ids[int(m[1])]!r}" if int(m[1]) in _ids else m[0], text)


def _group(group):
    return None if group is None else _bytes(group)


def protect(name, array, group=None):
    """Names an array as a variable of the checkpoints that checkpoint() writes. Not collective.

    array is one of numpy, or anything with a writable buffer without gaps, such as a bytearray. If the
    name is protected already, the array takes its place. Until unprotect() it cannot be resized. With a group, only checkpoints of that name contain it.
    """
    view = memoryview(array)
    if "O" in view.format or "P" in view.format:
        raise ValueError(f"variable {name!r}: it has pointers to objects, which mean nothing in the next run")
    if view.readonly or not view.c_contiguous:
        raise ValueError(f"variable {name!r}: its memory has to be writable and without gaps")
    # As long as this is there, Python does not move the memory, and refuses to resize the array.
    memory = (ctypes.c_char * view.nbytes).from_buffer(array) if view.nbytes > 0 else None
    address = ctypes.addressof(memory) if memory else None
    _check(_lib.goscr_variables_protect(_id(name), address, view.nbytes, 1, _group(group)), "VELOC_Mem_protect")
    if group is None:
        for key in [k for k in _arrays if k[0] == name]:
            del _arrays[key]
    _arrays[name, group] = memory


def unprotect(name, group=None):
    """Ends protect(), without a group in all groups. Not collective."""
    _check(_lib.goscr_variables_unprotect(_id(name), _group(group)), "VELOC_Mem_unprotect")
    for key in [k for k in _arrays if k[0] == name and group in (None, k[1])]:
        del _arrays[key]


def _version(version):
    """Returns the version if C can have it: ctypes would take some of its bits."""
    if not 0 <= version < 2**31:
        raise ValueError(f"version {version}: a version is from 0 to {2**31 - 1}")
    return version


def checkpoint(name, version):
    """Writes the variables that are protected as a version of a name; as a rule the version is the step."""
    _check(_lib.goscr_variables_checkpoint(_bytes(name), _version(version)), "VELOC_Checkpoint")


def newest(name, most=0):
    """Returns the newest version of a name from which all ranks can restart, None if there is none.

    If most is not 0, the version is at most that.
    """
    version = ctypes.c_int(-1)
    _check(_lib.goscr_variables_find(_bytes(name), _version(most), -1, ctypes.byref(version)), "VELOC_Restart_test")
    return None if version.value < 0 else version.value


def restore(name, version):
    """Reads a version into the variables. If that fails on any rank, no array is changed on any."""
    _check(_lib.goscr_variables_restart(_bytes(name), _version(version)), "VELOC_Restart")



def should_exit():
    """Returns True if the program should stop now."""
    return _ask(_lib.SCR_Should_exit)


def current(name):
    """Makes the dataset with this name, in the prefix directory or the cache, the one to restart from."""
    _check(_lib.SCR_Current(_bytes(name)), "SCR_Current")


def drop(name):
    """Removes the dataset with this name from the index of the prefix directory and from the cache."""
    _check(_lib.SCR_Drop(_bytes(name)), "SCR_Drop")


def delete(name):
    """Deletes the dataset with this name, with its files, from the prefix directory and the cache."""
    _check(_lib.SCR_Delete(_bytes(name)), "SCR_Delete")
