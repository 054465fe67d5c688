#!/usr/bin/env python3
"""examples/heat in Python: a plate cools down, in parallel, and survives the loss of a node.

It computes the same as the C program and writes the same files, so that each of
them can restart from a checkpoint of the other. The calls of SCR are in restart,
checkpoint, iterate and main; the rest would be the same without SCR. Most programs
of this kind use numpy and mpi4py; this one uses neither, to show that SCR does not
need them (messages.py calls MPI).

    mpirun -n 4 python3 heat.py -x 128 -y 128 -s 1000 -c 100 -o final.heat
"""

import argparse
import struct
import sys
from array import array

import scr
from messages import Messages

# The header of a checkpoint file, which is the same as in examples/heat.
HEADER = struct.Struct("=8s4I5q")


class Heat:
    """The block of rows of a rank, and copies of the row above and of the row below it."""

    def __init__(self, nx, ny, messages):
        self.messages, self.rank, self.ranks = messages, scr.rank(), scr.size()
        self.nx, self.ny = nx, ny
        if ny < self.ranks:
            raise SystemExit("heat: more ranks than rows")
        self.rows = self.rows_of(self.rank)
        self.first = sum(self.rows_of(r) for r in range(self.rank))
        self.begin()

    def rows_of(self, rank):
        """Returns the number of rows of a rank: they are divided evenly, and the first ranks have one more."""
        return self.ny // self.ranks + (rank < self.ny % self.ranks)

    def begin(self):
        """Sets the state at step 0."""
        self.step = 0
        self.now = [array("d", (self.initial(self.first + i, j) for j in range(self.nx)))
                    for i in range(-1, self.rows + 1)]

    def initial(self, i, j):
        """Returns the value of a point at step 0: a warm plate with two hot discs, a cold bar, and edges at 0."""
        x, y = j / (self.nx - 1), i / (self.ny - 1)
        if i in (0, self.ny - 1) or j in (0, self.nx - 1):
            return 0.0
        if (x - 0.3) * (x - 0.3) + (y - 0.35) * (y - 0.35) < 0.02:
            return 100.0
        if (x - 0.7) * (x - 0.7) + (y - 0.6) * (y - 0.6) < 0.01:
            return 80.0
        if abs(x - 0.5) < 0.02 and 0.2 < y < 0.9:
            return -50.0
        return 20.0

    def advance(self):
        """Computes one step."""
        self.exchange()
        now, k = self.now, 0.2  # stable below 0.25
        result = [now[0]]
        for i in range(1, self.rows + 1):
            above, here, below = now[i - 1], now[i], now[i + 1]
            if self.first + i in (1, self.ny):
                result.append(here)  # the edge of the plate is constant
                continue
            out = array("d", here)
            for j in range(1, self.nx - 1):
                out[j] = here[j] + k * (above[j] + below[j] + here[j - 1] + here[j + 1] - 4.0 * here[j])
            result.append(out)
        self.now = result + [now[-1]]
        self.step += 1

    def exchange(self):
        """Exchanges border rows with the ranks above and below."""
        neighbours = [(self.rank - 1, 1, 0), (self.rank + 1, -2, -1)]
        # Even ranks begin with the rank below and odd ones with the rank above, so that all
        # exchanges of a pair run at the same time, and not one after the other.
        if self.rank % 2 == 0:
            neighbours.reverse()
        for rank, ours, theirs in neighbours:
            if 0 <= rank < self.ranks:
                self.now[theirs] = array("d", self.messages.swap(self.now[ours].tobytes(), rank))

    def data(self):
        """Returns the rows of this rank as bytes of a file."""
        return b"".join(row.tobytes() for row in self.now[1:-1])

    def header(self):
        return HEADER.pack(b"HEATCKPT", 1, self.rank, self.ranks, 0, self.nx, self.ny, self.first, self.rows, self.step)

    def save(self, path):
        with open(path, "wb") as f:
            f.write(self.header() + self.data())

    def load(self, path, step):
        """Reads a file, whose header must be the one that this rank would write at this step."""
        with open(path, "rb") as f:
            head, data = f.read(HEADER.size), f.read()
        self.step = step
        width = 8 * self.nx
        if head != self.header() or len(data) != self.rows * width:
            raise ValueError(f"{path} is not a file of this grid, rank and step")
        self.now[1:-1] = [array("d", data[i * width:(i + 1) * width]) for i in range(self.rows)]

    def write_result(self, path):
        """Writes the whole field, row by row, to one file, which does not depend on the number of ranks."""
        if self.rank != 0:
            self.messages.send(self.data(), 0)
            return
        with open(path, "wb") as f:
            f.write(self.data())
            for r in range(1, self.ranks):
                f.write(self.messages.receive(self.rows_of(r) * self.nx * 8, r))
        self.say(f"result in {path}")

    def say(self, line):
        if self.rank == 0:
            print(line, flush=True)


# -------------------------------------------------------------------- using SCR


def file_name(checkpoint, rank):
    """Returns the name of a rank's file: heat.1200/rank_0.ckpt in checkpoint heat.1200."""
    return f"{checkpoint}/rank_{rank}.ckpt"


def restart(h):
    """Restarts from the newest checkpoint that all ranks can read, if there is one."""
    while name := scr.have_restart():
        try:
            with scr.restart() as ckpt:
                h.load(ckpt.route(file_name(name, h.rank)), step=int(name.removeprefix("heat.")))
            h.say(f"restarted from {name} at step {h.step}")
            return
        except scr.Error as e:
            # Some ranks may have read their rows before another failed.
            if e.__cause__:
                print(f"heat: rank {h.rank}: {e.__cause__}", file=sys.stderr)
            h.say(f"{name} cannot be used, looking for an older one")
            h.begin()


def checkpoint(h):
    """Writes a checkpoint. If that fails the program continues, because the previous one still exists."""
    name = f"heat.{h.step}"
    try:
        with scr.output(name) as ckpt:
            h.save(ckpt.route(file_name(name, h.rank)))
        h.say(f"checkpoint {name} complete")
    except scr.Error as e:
        if e.__cause__:
            print(f"heat: rank {h.rank}: {e.__cause__}", file=sys.stderr)
        h.say(f"checkpoint {name} failed")


def iterate(h, steps, every):
    while h.step < steps:
        h.advance()
        if every == 0 or h.step % every != 0 or h.step == steps:
            continue
        if scr.need_checkpoint():
            checkpoint(h)
        if scr.should_exit():
            h.say(f"asked to stop at step {h.step}")
            return


def number(least):
    def convert(text):
        if int(text) < least:
            raise ValueError
        return int(text)
    convert.__name__ = f"number from {least}"
    return convert


def main():
    parser = argparse.ArgumentParser(description="a plate cools down")
    parser.add_argument("-x", type=number(3), default=128, help="points in a row")
    parser.add_argument("-y", type=number(3), default=128, help="rows")
    parser.add_argument("-s", type=number(0), default=1000, help="steps to compute")
    parser.add_argument("-c", type=number(0), default=100, help="steps between checkpoints, 0 for none")
    parser.add_argument("-o", help="write the final field to this file")
    o = parser.parse_args()

    # iterate asks only every o.c steps, so the answer should be yes each time.
    # A user can override this in the environment.
    scr.config("SCR_CHECKPOINT_INTERVAL=1")
    scr.init()
    h = Heat(o.x, o.y, Messages(scr.library()))
    restart(h)
    iterate(h, o.s, o.c)
    if o.o and h.step >= o.s:
        h.write_result(o.o)
    scr.finalize()


if __name__ == "__main__":
    main()
