"""Messages between the ranks of a job, which ctypes sends by the MPI of libscr.so.

These are the few calls of MPI that the example needs without mpi4py.
"""

import ctypes


class Messages:
    def __init__(self, library):
        self.lib = library
        try:  # Open MPI: addresses of objects
            self.world = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(library, "ompi_mpi_comm_world")))
            self.byte = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(library, "ompi_mpi_byte")))
            self.ignore = ctypes.c_void_p(0)
        except ValueError:  # MPICH: numbers
            self.world, self.byte = ctypes.c_int(0x44000000), ctypes.c_int(0x4C00010D)
            self.ignore = ctypes.c_void_p(1)

    def _call(self, name, *arguments):
        if getattr(self.lib, name)(*arguments) != 0:
            raise RuntimeError(f"{name} failed")

    def send(self, data, rank):
        self._call("MPI_Send", data, len(data), self.byte, rank, 0, self.world)

    def receive(self, size, rank):
        buffer = ctypes.create_string_buffer(size)
        self._call("MPI_Recv", buffer, size, self.byte, rank, 0, self.world, self.ignore)
        return buffer.raw

    def swap(self, data, rank):
        """Sends data to a rank, and receives the same number of bytes from it."""
        buffer = ctypes.create_string_buffer(len(data))
        self._call("MPI_Sendrecv", data, len(data), self.byte, rank, 0,
                   buffer, len(data), self.byte, rank, 0, self.world, self.ignore)
        return buffer.raw
