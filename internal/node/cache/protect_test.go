package cache

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/mpi/sockets"
	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
	"github.com/goscr/goscr/internal/redundancy/xor"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
	"github.com/goscr/goscr/test/sample"
)

// behind is a job whose datasets are protected behind the program.
type behind struct {
	t   *testing.T
	dir string
}

const ranksBehind = 4

// contents are those of a rank's file of a dataset.
func contents(id, rank int) []byte { return bytes.Repeat([]byte{byte('a' + 10*id + rank)}, 5000+rank) }

// create creates a dataset and writes its files.
func create(k *Cache, set *redundancy.Set, id int) (*Cached, error) {
	return createWith(k, &reddesc.Descriptor{Params: reddesc.Params{Store: "store", Type: "XOR", SetSize: ranksBehind}, Scheme: xor.Scheme(), Set: set}, id)
}

// createWith creates a dataset with a descriptor and writes its files.
func createWith(k *Cache, desc *reddesc.Descriptor, id int) (*Cached, error) {
	c, err := k.Create(dataset.New(id, fmt.Sprint("ckpt.", id), dataset.Checkpoint, id, dataset.Owner{}, time.Unix(1, 0)), desc)
	if err != nil {
		return nil, err
	}
	path, err := k.Add(c, meta.New(fmt.Sprint("file.", k.Config.World.Rank()), meta.Full, ranksBehind))
	if err != nil {
		return nil, err
	}
	return c, os.WriteFile(path, contents(id, k.Config.World.Rank()), 0o600)
}

// run has all ranks write dataset 1, which is complete and protected, write dataset 2, complete
// it without redundancy, and call then.
func (b behind) run(opt local.Options, then func(k *Cache, c *Cached, p *Protection) error) ([]local.Stats, error) {
	opt.Timeout = time.Hour // mpi/local takes a wait over sockets for work
	return local.Run(ranksBehind, opt, func(world mpi.Comm) error {
		k, err := openCache(world, b.dir)
		if err != nil {
			return err
		}
		defer k.Close()
		set := redundancy.NewSet(world, world.Rank())
		own, err := sockets.New(set.Comm, sockets.Options{Limit: time.Hour})
		if err != nil {
			return err
		}
		defer own.Close()
		carrier := own.Revocable()
		first, err := create(k, set, 1)
		if err == nil {
			err = k.Complete(first, nil)
		}
		if err == nil {
			err = mpi.OnRoot(world, func() error { return os.WriteFile(filepath.Join(b.dir, "begun"), nil, 0o600) })
		}
		if err != nil {
			return err
		}
		c, err := create(k, set, 2)
		if err != nil {
			return err
		}
		p, err := k.CompleteFirst(c, nil, carrier)
		if err != nil {
			return err
		}
		if k.Find(2) != c || c.Protected() || !first.Protected() {
			return fmt.Errorf("usable %t, protected %t, before the protection has run", k.Find(2) == c, c.Protected())
		}
		err = then(k, c, p)
		world.Barrier() // nobody closes its connections before others have ended
		return err
	})
}

// runs is run of a job that is not killed.
func (b behind) runs(then func(k *Cache, c *Cached, p *Protection) error) {
	b.t.Helper()
	if _, err := b.run(local.Options{}, then); err != nil {
		b.t.Fatal(err)
	}
}

// behindProgram runs a protection in a goroutine of its own, which the program's waits for.
func behindProgram(p *Protection) error {
	ended := make(chan error)
	go func() { ended <- p.Run(nil) }()
	return <-ended
}

// restart opens the cache in another run. It returns the newest dataset that can be used, 0 if
// there is none: it has all files, and one redundancy file for each rank.
func (b behind) restart() (newest int) {
	b.t.Helper()
	found := make([]int, ranksBehind)
	_, err := local.Run(ranksBehind, local.Options{}, func(world mpi.Comm) error {
		k, err := openCache(world, b.dir)
		if err != nil {
			return err
		}
		defer k.Close()
		k.Recovery.Rebuild()
		c := k.NewestCheckpoint("")
		if c == nil {
			return nil
		}
		found[world.Rank()] = c.ID()
		own, made := redundancy.Split(k.Files(c.ID()))
		if len(own) != 1 || len(made) != 1 {
			return fmt.Errorf("%d files and %d redundancy files", len(own), len(made))
		}
		got, err := os.ReadFile(own[0].Path)
		if err == nil && !bytes.Equal(got, contents(c.ID(), world.Rank())) {
			err = errors.New("other contents")
		}
		if _, known := own[0].Meta.CRC(); err == nil && !known {
			err = errors.New("a file has no checksum")
		}
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return found[0]
}

func (b behind) loseNode(rank int) {
	if err := os.RemoveAll(filepath.Join(b.dir, fmt.Sprint(rank))); err != nil {
		b.t.Fatal(err)
	}
}

// After Protected a dataset tolerates what its scheme does.
func TestProtection(t *testing.T) {
	b := behind{t, t.TempDir()}
	b.runs(func(k *Cache, c *Cached, p *Protection) error {
		if err := k.EndProtection(p, behindProgram(p)); err != nil {
			return err
		}
		if took, bytes := c.Encoded(); !c.Protected() || took <= 0 || bytes <= 5000 {
			return fmt.Errorf("protected: %t, in %v, %d bytes", c.Protected(), took, bytes)
		}
		return nil
	})
	b.loseNode(2)
	if id := b.restart(); id != 2 {
		t.Errorf("dataset %d is used after the loss of a node", id)
	}
}

// The program writes and completes another dataset meanwhile.
func TestProtection_ProgramGoesOn(t *testing.T) {
	b := behind{t, t.TempDir()}
	b.runs(func(k *Cache, c *Cached, p *Protection) error {
		ended := make(chan error, 1)
		go func() { ended <- p.Run(nil) }()
		next, err := create(k, c.Desc.Set, 3)
		if err == nil {
			err = k.Complete(next, nil)
		}
		if err := errors.Join(err, k.EndProtection(p, <-ended)); err != nil {
			return err
		}
		if !c.Protected() || !next.Protected() {
			return errors.New("a dataset is not protected")
		}
		k.Delete(3)
		return nil
	})
	b.loseNode(0)
	if id := b.restart(); id != 2 {
		t.Errorf("dataset %d is used after the loss of a node", id)
	}
}

// A job that is killed before leaves a dataset that can be used if no node is lost, and is
// protected then.
func TestProtection_Killed(t *testing.T) {
	for what, then := range map[string]func(k *Cache, c *Cached, p *Protection) error{
		"before it runs":     func(*Cache, *Cached, *Protection) error { return nil },
		"before it is known": func(_ *Cache, _ *Cached, p *Protection) error { return behindProgram(p) },
		"some know of it": func(k *Cache, c *Cached, p *Protection) error {
			err := behindProgram(p)
			if k.Config.World.Rank() < 2 {
				c.bare = false
				err = errors.Join(err, k.record(c, append(p.own, p.made...)))
			}
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			b := behind{t, t.TempDir()}
			b.runs(then)
			if id := b.restart(); id != 2 {
				t.Fatalf("dataset %d is used though no node is lost", id)
			}
			b.loseNode(1)
			if id := b.restart(); id != 2 {
				t.Errorf("dataset %d is used: the next run has not protected 2", id)
			}
			b = behind{t, t.TempDir()}
			b.runs(then)
			b.loseNode(3)
			if id := b.restart(); id != 1 {
				t.Errorf("dataset %d is used, of which too much is lost", id)
			}
		})
	}
}

// At whatever message of MPI the job is killed, there is a dataset to restart from, also if a
// node is lost besides.
func TestProtection_KilledAtAnyMessage(t *testing.T) {
	all := func(k *Cache, c *Cached, p *Protection) error { return k.EndProtection(p, behindProgram(p)) }
	stats, err := behind{t, t.TempDir()}.run(local.Options{}, all)
	if err != nil {
		t.Fatal(err)
	}
	var total int64
	for _, s := range stats {
		total += s.Messages
	}
	used := map[int]int{}
	var messages []int64
	for at := total; at > 0; at-- {
		messages = append(messages, at)
	}
	messages = sample.Of(t, messages, 12, 60)
	for _, at := range messages {
		b := behind{t, t.TempDir()}
		if _, err := b.run(local.Options{KillAt: at}, all); !errors.Is(err, local.ErrKilled) {
			t.Fatalf("killed at message %d of %d: %v", at, total, err)
		}
		if _, begun := os.Stat(filepath.Join(b.dir, "begun")); begun != nil { // dataset 1 is not complete
			break
		}
		if at%2 == 0 {
			b.loseNode(int(at/2) % ranksBehind)
		}
		id := b.restart()
		if id == 0 {
			t.Errorf("killed at message %d of %d: nothing is left", at, total)
		}
		used[id]++
	}
	if len(messages) == int(total) && (used[1] < 10 || used[2] < 10) {
		t.Errorf("how often each dataset was used: %v", used)
	}
}

// An error on one rank is an error of all, and the dataset remains what it was.
func TestProtection_Fails(t *testing.T) {
	for what, fail := range map[string]func(k *Cache, p *Protection) error{
		"a file is gone": func(k *Cache, p *Protection) error {
			if err := os.Remove(p.own[0].Path); err != nil {
				return err
			}
			err := behindProgram(p)
			return errors.Join(err, os.WriteFile(p.own[0].Path, contents(2, k.Config.World.Rank()), 0o600))
		},
		"it panics": func(k *Cache, p *Protection) error {
			p.own = append(p.own, redundancy.File{}) // without a description
			return behindProgram(p)
		},
		"it is cancelled": func(k *Cache, p *Protection) error {
			p.Cancel()
			return behindProgram(p)
		},
	} {
		t.Run(what, func(t *testing.T) {
			b := behind{t, t.TempDir()}
			b.runs(func(k *Cache, c *Cached, p *Protection) error {
				run := behindProgram
				if k.Config.World.Rank() == 1 {
					run = func(p *Protection) error { return fail(k, p) }
				}
				err := k.EndProtection(p, run(p))
				var agreed *mpi.AgreedError
				if !errors.As(err, &agreed) || !strings.Contains(err.Error(), "rank") {
					return fmt.Errorf("the error is not agreed: %w", err)
				}
				if k.Find(2) != c || c.Protected() {
					return fmt.Errorf("usable %t, protected %t", k.Find(2) == c, c.Protected())
				}
				if !c.Unchecked() { // on any rank: Checked is collective
					return errors.New("the dataset counts as one with checksums")
				}
				k.Checked(c, nil)
				return nil
			})
			if id := b.restart(); id != 2 {
				t.Errorf("dataset %d is used", id)
			}
		})
	}
}

// A dataset that is not valid on some rank is deleted, as by Complete.
func TestCompleteFirst_Invalid(t *testing.T) {
	_, err := local.Run(3, local.Options{}, func(world mpi.Comm) error {
		k, err := openCache(world, t.TempDir())
		if err != nil {
			return err
		}
		defer k.Close()
		set := redundancy.NewSet(world, world.Rank())
		comm := world.Revocable()
		desc := &reddesc.Descriptor{Params: reddesc.Params{Store: "store", Type: "XOR"}, Scheme: xor.Scheme(), Set: set}
		c, err := k.Create(dataset.New(1, "ckpt", dataset.Checkpoint, 1, dataset.Owner{}, time.Unix(1, 0)), desc)
		if err != nil {
			return err
		}
		var failed error
		if world.Rank() == 1 {
			failed = ErrInvalid
		}
		p, err := k.CompleteFirst(c, failed, comm)
		if p != nil || err == nil || k.Find(1) != nil {
			return fmt.Errorf("%v: a dataset that is not valid is usable: %t", err, k.Find(1) != nil)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
