//go:build mpi

package main

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/system"
	"github.com/goscr/goscr/scr"
)

func main() {
	if err := mpi.Try(run); err != nil { // also if MPI has failed
		fmt.Fprintln(os.Stderr, "heat-go:", err)
		os.Exit(1) // mpirun ends the other ranks
	}
}

func run() error {
	if err := system.Init(); err != nil {
		return err
	}
	nx := flag.Int("x", 1024, "points in a row")
	ny := flag.Int("y", 1024, "rows")
	steps := flag.Int64("s", 1000, "steps to compute")
	every := flag.Int64("c", 100, "steps between checkpoints, 0 for none")
	output := flag.String("o", "", "write the final field to this file")
	flag.Parse()

	world, err := system.World()
	if err != nil {
		return err
	}
	h, err := newHeat(world, *nx, *ny)
	if err != nil {
		return err
	}

	// iterate asks only every -c steps, so the answer should be yes each time.
	// A user can override this in the environment.
	session, err := scr.Init(world, scr.Options{CheckpointInterval: 1})
	if err != nil {
		return err
	}
	if err := h.restart(session); err != nil {
		return err
	}
	if err := h.iterate(session, *steps, *every); err != nil {
		return err
	}
	if *output != "" && h.step >= *steps {
		if err := h.writeResult(*output); err != nil {
			return err
		}
	}
	if err := session.Finalize(); err != nil {
		return err
	}
	world.Free()
	return system.Finalize()
}

// iterate computes until the given step, and writes checkpoints every few steps.
func (h *heat) iterate(s *scr.Session, steps, every int64) error {
	report := max(steps/20, 1)
	for h.step < steps {
		h.advance()
		if h.step%report == 0 || h.step == steps {
			h.say("step %d of %d\n", h.step, steps)
		}
		if every == 0 || h.step%every != 0 || h.step == steps {
			continue
		}
		need, err := s.NeedCheckpoint()
		if err != nil {
			return err
		}
		if need {
			h.checkpoint(s)
		}
		stop, err := s.ShouldExit()
		if err != nil {
			return err
		}
		if stop {
			h.say("asked to stop at step %d\n", h.step)
			return nil
		}
	}
	return nil
}

// --------------------------------------------------------------- using goscr

// restart restarts from the newest checkpoint that all ranks can read, if there is one.
func (h *heat) restart(s *scr.Session) error {
	for {
		in, err := s.Restart()
		if err != nil || in == nil {
			return err
		}
		path, err := in.Path(h.file())
		if err == nil {
			err = h.load(path)
		}
		if err != nil {
			h.complain(err)
		}
		together := h.sameStep(err == nil)
		if in.Complete(err == nil && together) == nil {
			h.say("restarted from %s at step %d\n", in.Name(), h.step)
			return nil
		}
		// Some ranks may have read their rows before another failed.
		h.say("%s cannot be used, looking for an older one\n", in.Name())
		h.begin()
	}
}

// file is the name of this rank's file in each checkpoint.
func (h *heat) file() string { return fmt.Sprintf("rank_%d.ckpt", h.rank) }

// sameStep reports whether all ranks have read files of the same step.
func (h *heat) sameStep(valid bool) bool {
	step := int64(-1)
	if valid {
		step = h.step
	}
	extremes := []int64{step, -step}
	h.world.Allreduce(extremes, mpi.Max)
	return extremes[0] == -extremes[1]
}

// checkpoint writes a checkpoint. If that fails the program continues, because the previous
// one still exists.
func (h *heat) checkpoint(s *scr.Session) {
	out, err := s.Begin(fmt.Sprintf("heat.%d", h.step), scr.Checkpoint)
	if err != nil {
		h.say("a checkpoint could not be started: %v\n", err)
		return
	}
	path, err := out.Path(h.file())
	if err == nil {
		err = h.save(path)
	}
	if err != nil {
		h.complain(err)
	}
	if err := out.Complete(err == nil); err != nil {
		h.say("checkpoint %s failed: %v\n", out.Name(), err)
		return
	}
	h.say("checkpoint %s complete\n", out.Name())
}

// ------------------------------------------------------------ one rank's file

// header is the header of a checkpoint file, which is the same as in examples/heat.
type header struct {
	Magic    [8]byte
	Version  uint32
	Rank     uint32
	Ranks    uint32
	Reserved uint32
	NX, NY   int64 // the whole grid
	First    int64 // first row of this rank, and number of rows
	Rows     int64
	Step     int64 // steps computed
}

func (h *heat) header() header {
	return header{
		Magic: [8]byte([]byte("HEATCKPT")), Version: 1, Rank: uint32(h.rank), Ranks: uint32(h.ranks),
		NX: int64(h.nx), NY: int64(h.ny), First: int64(h.first), Rows: int64(h.rows), Step: h.step,
	}
}

func (h *heat) save(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	err = binary.Write(f, binary.NativeEndian, h.header())
	if err == nil {
		_, err = f.Write(bytesOf(h.own(h.now)))
	}
	return errors.Join(err, f.Close())
}

// load reads a file and the step in its header. Everything else in the header must be what
// this rank would write.
func (h *heat) load(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var found header
	if err := binary.Read(f, binary.NativeEndian, &found); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	expected := h.header()
	expected.Step = found.Step
	if found != expected || found.Step < 0 {
		return fmt.Errorf("%s is not a file of this grid and rank", path)
	}
	if _, err := io.ReadFull(f, bytesOf(h.own(h.now))); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if n, _ := f.Read(make([]byte, 1)); n != 0 {
		return fmt.Errorf("%s is too long", path)
	}
	h.step = found.Step
	return nil
}

// ------------------------------------------------------------- final result

// writeResult writes the whole field, row by row, to one file, which does not depend on
// the number of ranks.
func (h *heat) writeResult(path string) (err error) {
	if h.rank != 0 {
		h.world.Send(bytesOf(h.own(h.now)), 0, 2)
		return nil
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(bytesOf(h.own(h.now))); err != nil {
		return err
	}
	for r := 1; r < h.ranks; r++ {
		rows := bytesOf(h.own(h.next)[:h.nx*h.rowsOf(r)]) // rank 0 has the most rows
		h.world.Recv(rows, r, 2)
		if _, err := f.Write(rows); err != nil {
			return err
		}
	}
	h.say("result in %s\n", path)
	return nil
}

func (h *heat) say(format string, args ...any) {
	if h.rank == 0 {
		fmt.Printf(format, args...)
	}
}

func (h *heat) complain(err error) { fmt.Fprintf(os.Stderr, "heat-go: rank %d: %v\n", h.rank, err) }
