package hash

import (
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

func run(t *testing.T, n int, f func(c mpi.Comm) error) []local.Stats {
	t.Helper()
	stats, err := local.Run(n, local.Options{}, f)
	if err != nil {
		t.Fatalf("%d ranks: %v", n, err)
	}
	return stats
}

// same is an error unless two hashes are equal.
func same(got, want *Hash) error {
	if got == nil || !got.Equal(want) {
		return fmt.Errorf("got %q, want %q", paths(got), paths(want))
	}
	return nil
}

func of(rank int) *Hash { return tree(fmt.Sprintf("rank/%d", rank), "x") }

func TestSendRecv(t *testing.T) {
	run(t, 3, func(c mpi.Comm) error {
		if c.Rank() > 0 {
			Send(of(c.Rank()), 0, c)
			Send(nil, 0, c)
			return nil
		}
		for _, src := range []int{2, 1} { // not the order in which they arrive
			if err := same(Recv(src, c), of(src)); err != nil {
				return err
			}
			if h := Recv(src, c); h == nil || h.Size() != 0 {
				return fmt.Errorf("nil arrives as %v", h)
			}
		}
		return nil
	})
}

func TestSendrecv(t *testing.T) {
	for n := 1; n <= 7; n++ {
		run(t, n, func(c mpi.Comm) error {
			right, left := (c.Rank()+1)%n, (c.Rank()+n-1)%n
			return same(Sendrecv(of(c.Rank()), right, left, c), of(left))
		})
	}
}

func TestBcast(t *testing.T) {
	for n := 1; n <= 9; n++ {
		for root := range n {
			run(t, n, func(c mpi.Comm) error {
				mine := of(c.Rank())
				h := Bcast(mine, root, c)
				if err := same(h, of(root)); err != nil {
					return err
				}
				h.Set("changed", nil)
				if err := same(mine, of(c.Rank())); err != nil {
					return fmt.Errorf("what is returned shares with what was given: %w", err)
				}
				return same(Bcast(nil, root, c), New())
			})
		}
	}
}

func TestFromRoot(t *testing.T) {
	for n := 1; n <= 5; n++ {
		run(t, n, func(c mpi.Comm) error {
			h, err := FromRoot(c, func() (*Hash, error) { return of(c.Rank()), nil })
			if err := errors.Join(err, same(h, of(0))); err != nil {
				return err
			}
			h, err = FromRoot(c, func() (*Hash, error) { return of(0), fmt.Errorf("rank %d fails", c.Rank()) })
			if h != nil || err == nil || !strings.Contains(err.Error(), "rank 0 fails") {
				return fmt.Errorf("%v, %v", h, err)
			}
			return nil
		})
	}
}

func TestCollect(t *testing.T) {
	const n = 7
	for pass := range 1 << n { // the ranks that pass a hash
		run(t, n, func(c mpi.Comm) error {
			var mine *Hash
			var want []int
			for r := range n {
				if pass>>r&1 == 1 {
					want = append(want, r)
				}
			}
			if slices.Contains(want, c.Rank()) {
				mine = of(c.Rank())
			}
			got := Collect(mine, len(want), c)
			if c.Rank() > 0 {
				want = nil
			}
			if len(got) != len(want) {
				return fmt.Errorf("%d hashes of %v", len(got), want)
			}
			for i, r := range want {
				if err := same(got[i], of(r)); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// What arrives is checked as what is read from a file is.
func TestMessages_Bad(t *testing.T) {
	for name, data := range map[string][]byte{
		"nothing":   {},
		"truncated": tree("a/b").Pack(nil)[:9],
		"longer":    append(tree("a").Pack(nil), 0),
	} {
		run(t, 2, func(c mpi.Comm) error {
			if c.Rank() == 1 {
				c.Send(data, 0, tagHash)
				return nil
			}
			err := mpi.Try(func() error {
				Recv(1, c)
				return nil
			})
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "rank 1") {
				return fmt.Errorf("%s: %v", name, err)
			}
			return nil
		})
	}
}

// pattern is who sends what to whom.
type pattern []map[int]*Hash // by source, then by destination

func randomPattern(rnd *rand.Rand, n int) pattern {
	p := make(pattern, n)
	density := rnd.Float64()
	for src := range p {
		p[src] = map[int]*Hash{}
		for dst := range n {
			if rnd.Float64() < density*density {
				p[src][dst] = random(rnd, 5, 2)
			}
		}
	}
	return p
}

func (p pattern) sent(src int) *Hash {
	h := New()
	for dst, child := range p[src] {
		h.Set(strconv.Itoa(dst), child)
	}
	return h
}

func (p pattern) received(dst int) *Hash {
	h := New()
	for src := range p {
		if child, ok := p[src][dst]; ok {
			h.Set(strconv.Itoa(src), child)
		}
	}
	return h
}

func TestExchange(t *testing.T) {
	for n := 1; n <= 17; n++ {
		rnd := rand.New(rand.NewPCG(5, uint64(n)))
		patterns := make([]pattern, 12)
		for i := range patterns {
			patterns[i] = randomPattern(rnd, n)
		}
		patterns[3] = make(pattern, n) // nobody sends anything
		run(t, n, func(c mpi.Comm) error {
			// One right after the other, by ranks that do not keep step: no
			// message may be taken for one of the next exchange.
			rnd := rand.New(rand.NewPCG(6, uint64(c.Rank())))
			for i, p := range patterns {
				for range rnd.IntN(50) {
					runtime.Gosched()
				}
				mine := p.sent(c.Rank())
				got, err := Exchange(mine, c)
				if err := errors.Join(err, same(got, p.received(c.Rank()))); err != nil {
					return fmt.Errorf("exchange %d: %w", i, err)
				}
				if err := same(mine, p.sent(c.Rank())); err != nil {
					return fmt.Errorf("exchange %d changed what was sent: %w", i, err)
				}
			}
			return nil
		})
	}
}

// An exchange between others does not take the messages of their neighbours.
func TestExchange_LeavesOtherMessages(t *testing.T) {
	run(t, 2, func(c mpi.Comm) error {
		buf := mpi.Alloc(4)
		other := 1 - c.Rank()
		request := c.Isend(buf, other, 7)
		send := New()
		send.Set(strconv.Itoa(other), of(c.Rank()))
		got, err := Exchange(send, c)
		if err := errors.Join(err, same(got.Get(strconv.Itoa(other)), of(other))); err != nil {
			return err
		}
		if status := c.Recv(make([]byte, 4), mpi.AnySource, 7); status.Source != other {
			return fmt.Errorf("%v", status)
		}
		request.Wait()
		mpi.Free(buf)
		return nil
	})
}

// What a rank sends to itself is a copy, as it is for others.
func TestExchange_Self(t *testing.T) {
	run(t, 3, func(c mpi.Comm) error {
		me := strconv.Itoa(c.Rank())
		send := New()
		send.Set(me, of(c.Rank()))
		got, err := Exchange(send, c)
		if err != nil {
			return err
		}
		got.Get(me).Set("changed", nil)
		return same(send.Get(me), of(c.Rank()))
	})
}

// A rank that cannot send takes part all the same: all ranks get its error, and the
// next exchange finds everything in order.
func TestExchange_Errors(t *testing.T) {
	for _, key := range []string{"4", "-1", "x", "", "01", "+1", "99999999999999999999"} {
		run(t, 4, func(c mpi.Comm) error {
			send := New()
			send.Set("1", of(c.Rank()))
			if c.Rank() == 2 {
				send.Set(key, of(2))
			}
			got, err := Exchange(send, c)
			if err == nil || got != nil || !strings.Contains(err.Error(), "rank 2: exchange with rank "+strconv.Quote(key)) {
				return fmt.Errorf("exchange with rank %q: %v", key, err)
			}
			got, err = Exchange(nil, c)
			return errors.Join(err, same(got, New()))
		})
	}
}

// Killed at any message, a job ends; no rank waits for ever.
func TestExchange_Killed(t *testing.T) {
	const n = 5
	p := randomPattern(rand.New(rand.NewPCG(7, 7)), n)
	f := func(c mpi.Comm) error {
		_, err := Exchange(p.sent(c.Rank()), c)
		return err
	}
	total := int64(0)
	for _, s := range run(t, n, f) {
		total += s.Messages
	}
	for at := int64(1); at <= total; at++ {
		_, err := local.Run(n, local.Options{KillAt: at}, f)
		if !errors.Is(err, local.ErrKilled) {
			t.Fatalf("killed at message %d of %d: %v", at, total, err)
		}
	}
}

// The cost of an exchange grows with a rank's partners and the logarithm of
// the ranks, not with the ranks.
func TestExchange_Cost(t *testing.T) {
	for _, n := range []int{64, 1024, 4096} {
		if testing.Short() && n > 1024 {
			continue
		}
		partners := func(r int) []int { return []int{(r + 1) % n, (r + n/2 + 3) % n} }
		stats := run(t, n, func(c mpi.Comm) error {
			send, want := New(), New()
			for _, dst := range partners(c.Rank()) {
				send.Set(strconv.Itoa(dst), of(c.Rank()))
			}
			for _, src := range []int{(c.Rank() + n - 1) % n, (c.Rank() - n/2 - 3 + 2*n) % n} {
				want.Set(strconv.Itoa(src), of(src))
			}
			got, err := Exchange(send, c)
			return errors.Join(err, same(got, want))
		})
		log := int64(bits.Len(uint(n - 1)))
		most, bytes := 2+2*log, int64(2*of(n).PackSize())+16*log // the reduction has two numbers
		for r, s := range stats {
			if s.Messages > most || s.Bytes > bytes {
				t.Fatalf("%d ranks: rank %d sent %d messages of %d bytes, want at most %d of %d",
					n, r, s.Messages, s.Bytes, most, bytes)
			}
		}
	}
}
