package redundancy_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/mpi/mpitest"
	"github.com/goscr/goscr/internal/mpi/sockets"
	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/redundancy/partner"
	"github.com/goscr/goscr/internal/redundancy/rs"
	"github.com/goscr/goscr/internal/redundancy/xor"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
	"github.com/goscr/goscr/test/sample"
)

// encoder encodes the same small files again and again, in a set of members.
type encoder struct {
	t       *testing.T
	scheme  redundancy.Scheme
	members int
	behind  bool
	pace    func(c mpi.Comm) error // Job.Pace
}

// encode encodes over c, and returns the bytes of the redundancy file.
func (e encoder) encode(c mpi.Comm, dir string) ([]byte, error) {
	path := filepath.Join(dir, "file")
	data := make([]byte, 50000+1000*c.Rank())
	for i := range data {
		data[i] = byte(i * (c.Rank() + 3) >> 7)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return nil, err
	}
	if err := os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		return nil, err
	}
	f := redundancy.File{Path: path, Meta: meta.New("file", meta.Full, e.members)}
	if err := f.Meta.Record(path); err != nil {
		return nil, err
	}
	f.Meta.SetComplete(true)
	c.Barrier()
	set := redundancy.NewSet(c, c.Rank())
	var pace func(int) error
	if e.pace != nil {
		pace = func(int) error { return e.pace(c) }
	}
	made, err := e.scheme.Encode(&redundancy.Job{
		Pace: pace, Set: set, Ranks: e.members, Dir: dir, Piece: 6000, // longer than a message that is sent unasked
		Dataset:  dataset.New(1, "c", dataset.Checkpoint, 1, dataset.Owner{}, time.Unix(0, 0)),
		Register: func(redundancy.File) error { return nil }, Behind: e.behind,
	}, []redundancy.File{f})
	if err = mpi.Agree(c, err); err != nil {
		return nil, err
	}
	return os.ReadFile(made[0].Path)
}

// dirs makes a directory for each member.
func (e encoder) dirs() []string {
	list := make([]string, e.members)
	for i := range list {
		list[i] = e.t.TempDir()
	}
	return list
}

// Schemes work over sockets as over any other mpi.Comm, and write the same bytes. If a member
// dies in place of any operation, all others get an error.
func TestEncode_Sockets(t *testing.T) {
	for _, scheme := range []redundancy.Scheme{xor.Scheme(), partner.Scheme(1), rs.Scheme(2)} {
		t.Run(scheme.Name(), func(t *testing.T) {
			e := encoder{t: t, scheme: scheme, members: 4}
			dirs := e.dirs()
			calls := make([]int, e.members)
			var errs atomic.Int64
			// run encodes, and has member who die at its at-th operation.
			run := func(who, at int) {
				_, err := local.Run(e.members, local.Options{Timeout: time.Hour}, func(world mpi.Comm) error {
					c, err := sockets.New(world, sockets.Options{Limit: time.Hour})
					if err != nil {
						return err
					}
					defer c.Close()
					me, n := c.Rank(), 0
					counted := mpitest.Faulty(c, func(string) {
						n++
						if me == who && n == at {
							c.Close()
							runtime.Goexit()
						}
					})
					var got []byte
					err = mpi.Try(func() (err error) {
						got, err = e.encode(counted, dirs[me])
						return err
					})
					if who < 0 {
						calls[me] = n
						if err != nil {
							return err
						}
						want, err := e.encode(world, dirs[me])
						if err == nil && !bytes.Equal(got, want) {
							err = errors.New("other bytes over sockets")
						}
						return err
					}
					var failed *mpi.OpError
					if err != nil && !errors.As(err, &failed) {
						return fmt.Errorf("not an error of an operation: %w", err)
					}
					if err != nil {
						errs.Add(1)
					}
					return nil
				})
				if err != nil {
					t.Errorf("member %d dies at operation %d of %d: %v", who, at, calls, err)
				}
			}
			run(-1, 0)
			type death struct{ who, at int }
			var deaths []death
			for who := range e.members {
				for at := 1; at <= calls[who]; at++ {
					deaths = append(deaths, death{who, at})
				}
			}
			drawn := sample.Of(t, deaths, 12, 40)
			for _, d := range drawn {
				run(d.who, d.at)
			}
			if errs.Load() < 100 && len(drawn) == len(deaths) {
				t.Errorf("only %d errors on members that have not died", errs.Load())
			}
		})
	}
}

// Between calls the program may have closed descriptors 0 to 2: no file is open as 0.
func TestEncode_Behind(t *testing.T) {
	f, err := os.Open(os.DevNull) // with the first file Go's runtime opens descriptors of its own: they must not become 0
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	kept, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 100)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(0)
	defer func() {
		if err := unix.Dup2(kept, 0); err != nil {
			t.Error(err)
		}
		unix.Close(kept)
	}()
	others := false
	for _, behind := range []bool{false, true} {
		for _, scheme := range []redundancy.Scheme{xor.Scheme(), partner.Scheme(1), rs.Scheme(2)} {
			e := encoder{t: t, scheme: scheme, members: 4, behind: behind}
			dirs := e.dirs()
			var low atomic.Bool
			look := func(op string) {
				if op != "Isend" { // before these, other members may still write their files
					return
				}
				path, err := os.Readlink("/proc/self/fd/0")
				if err == nil && filepath.Base(path) == "file" {
					low.Store(true)
				}
			}
			for range 2 { // the second time the redundancy files are there
				_, err := local.Run(e.members, local.Options{}, func(world mpi.Comm) error {
					_, err := e.encode(mpitest.Faulty(world, look), dirs[world.Rank()])
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			if behind && low.Load() {
				t.Errorf("%s: a file has descriptor 0", scheme.Name())
			}
			others = others || low.Load()
		}
	}
	if !others {
		t.Error("during a call no file has descriptor 0 either: the test sees none")
	}
}

// However an encoding ends, it leaves no file open: one that is deleted would keep its room.
func TestEncode_ClosesFiles(t *testing.T) {
	for _, scheme := range []redundancy.Scheme{xor.Scheme(), partner.Scheme(1), rs.Scheme(2)} {
		for _, how := range []string{"whole", "revoked", "panic"} {
			var pieces atomic.Int64
			e := encoder{t: t, scheme: scheme, members: 4, behind: true, pace: func(c mpi.Comm) error {
				if pieces.Add(1) != 6 { // members have opened their files
					return nil
				}
				switch how {
				case "revoked":
					c.(mpi.Revocable).Revoke("a test")
				case "panic":
					panic("a test")
				}
				return nil
			}}
			dirs := e.dirs()
			_, err := local.Run(e.members, local.Options{}, func(world mpi.Comm) error {
				c := world.Revocable()
				err := mpi.Guard(c, func() error {
					_, err := e.encode(c, dirs[c.Rank()])
					return err
				})
				if (err == nil) != (how == "whole") {
					return fmt.Errorf("%s: %v", how, err)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			if left := openBelow(t, filepath.Dir(dirs[0])); len(left) > 0 {
				t.Errorf("%s, %s: open are %v", scheme.Name(), how, left)
			}
		}
	}
}

// openBelow returns the files below a directory that the process has open.
func openBelow(t *testing.T, dir string) (open []string) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if path, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(path, dir+"/") {
			open = append(open, path)
		}
	}
	return open
}

// A member that is told to end reads nothing more, and takes part to the end: no other member waits.
func TestEncode_CancelledReadsNothing(t *testing.T) {
	stopped := errors.New("told to end")
	for _, scheme := range []redundancy.Scheme{xor.Scheme(), partner.Scheme(1), rs.Scheme(2)} {
		var calls [4]atomic.Int64
		e := encoder{t: t, scheme: scheme, members: 4, behind: true, pace: func(c mpi.Comm) error {
			if n := calls[c.Rank()].Add(1); c.Rank() == 2 && n == 2 {
				return stopped
			}
			return nil
		}}
		dirs := e.dirs()
		_, err := local.Run(e.members, local.Options{}, func(world mpi.Comm) error {
			_, err := e.encode(world, dirs[world.Rank()])
			var agreed *mpi.AgreedError
			if !errors.As(err, &agreed) || (agreed.Err == stopped) != (world.Rank() == 2) {
				return fmt.Errorf("the error is %v", err)
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", scheme.Name(), err)
		}
		if n, others := calls[2].Load(), calls[1].Load(); n != 2 || others < 5 {
			t.Errorf("%s: %d pieces are read, where others read %d", scheme.Name(), n, others)
		}
	}
}
