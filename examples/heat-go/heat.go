//go:build mpi

package main

import (
	"errors"
	"math"
	"unsafe"

	"github.com/goscr/goscr/mpi"
)

// heat is the block of rows of a rank, with copies of the row above and of the row
// below it.
type heat struct {
	world       mpi.Comm
	rank, ranks int
	nx, ny      int // points of the whole plate
	first, rows int // first row of this rank, and number of rows
	step        int64
	now, next   []float64
}

func newHeat(world mpi.Comm, nx, ny int) (*heat, error) {
	h := &heat{world: world, rank: world.Rank(), ranks: world.Size(), nx: nx, ny: ny}
	if nx < 3 || ny < 3 || ny < h.ranks {
		return nil, errors.New("the plate must have at least 3 points a row, 3 rows, and a row for each rank")
	}
	h.rows = h.rowsOf(h.rank)
	for r := range h.rank {
		h.first += h.rowsOf(r)
	}
	h.now = make([]float64, (h.rows+2)*nx)
	h.next = make([]float64, (h.rows+2)*nx)
	h.begin()
	copy(h.next, h.now)
	return h, nil
}

// rowsOf returns the number of rows of a rank. They are divided evenly, and the first
// ranks have one more.
func (h *heat) rowsOf(rank int) int {
	n := h.ny / h.ranks
	if rank < h.ny%h.ranks {
		n++
	}
	return n
}

// row returns a row of field; rows -1 and h.rows are copies of the neighbours' rows.
func (h *heat) row(field []float64, i int) []float64 { return field[(i+1)*h.nx : (i+2)*h.nx] }

// own returns the rows of this rank.
func (h *heat) own(field []float64) []float64 { return field[h.nx : (h.rows+1)*h.nx] }

// begin sets the state at step 0.
func (h *heat) begin() {
	h.step = 0
	for i := -1; i <= h.rows; i++ {
		for j := range h.nx {
			h.row(h.now, i)[j] = h.initial(h.first+i, j)
		}
	}
}

// initial returns the value of a point at step 0: a warm plate with two hot discs, a
// cold bar, and edges at 0.
func (h *heat) initial(i, j int) float64 {
	x := float64(j) / float64(h.nx-1)
	y := float64(i) / float64(h.ny-1)
	disc := func(cx, cy float64) float64 { return float64((x-cx)*(x-cx)) + float64((y-cy)*(y-cy)) }
	switch {
	case i == 0 || j == 0 || i == h.ny-1 || j == h.nx-1:
		return 0
	case disc(0.3, 0.35) < 0.02:
		return 100
	case disc(0.7, 0.6) < 0.01:
		return 80
	case math.Abs(x-0.5) < 0.02 && y > 0.2 && y < 0.9:
		return -50
	}
	return 20
}

// advance computes one step. The conversions keep the compiler from fusing
// operations, so that the result is the same on every processor and the same as that
// of examples/heat.
func (h *heat) advance() {
	const k = 0.2 // stable below 0.25
	h.exchange()
	for i := range h.rows {
		if h.first+i == 0 || h.first+i == h.ny-1 {
			continue // the edge of the plate is constant
		}
		above, here, below := h.row(h.now, i-1), h.row(h.now, i), h.row(h.now, i+1)
		out := h.row(h.next, i)
		for j := 1; j < h.nx-1; j++ {
			out[j] = here[j] + float64(k*(above[j]+below[j]+here[j-1]+here[j+1]-float64(4*here[j])))
		}
	}
	h.now, h.next = h.next, h.now
	h.step++
}

// exchange exchanges border rows with the ranks above and below.
func (h *heat) exchange() {
	swap := func(rank, ours, theirs, tag int) {
		if rank < 0 || rank >= h.ranks {
			return
		}
		h.world.Sendrecv(bytesOf(h.row(h.now, ours)), rank, tag, bytesOf(h.row(h.now, theirs)), rank, tag)
	}
	// Even ranks begin with the rank below and odd ones with the rank above, so that all
	// exchanges of a pair run at the same time, and not one after the other.
	up := func() { swap(h.rank-1, 0, -1, 0) }
	down := func() { swap(h.rank+1, h.rows-1, h.rows, 0) }
	if h.rank%2 == 0 {
		down()
		up()
		return
	}
	up()
	down()
}

// bytesOf returns the memory of the numbers as bytes, which is also their form in the
// files of examples/heat.
func bytesOf(values []float64) []byte {
	if len(values) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), 8*len(values))
}
