package cache

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
	"github.com/goscr/goscr/internal/sys/lock"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// holding is set in the process that stands for a rank of another run: what it locks
// until its standard input ends. With "first " before it, the process is the first rank of
// its node.
const holding = "GOSCR_TEST_HOLD"

func TestMain(m *testing.M) {
	if path := os.Getenv(holding); path != "" {
		hold(path)
		return
	}
	Bug = func(err error) { go panic(err) } // no call of goscr recovers it
	os.Exit(m.Run())
}

func hold(what string) {
	path, first := strings.CutPrefix(what, "first ")
	var err error
	if first {
		_, err = takeLock(path, "u", "7", rand.Text(), "n1")
	} else {
		_, err = joinLock(path)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("held")
	_, _ = os.Stdin.Read(make([]byte, 1))
}

// rank is a process that has the lock of a job.
type rank struct {
	*exec.Cmd
	end func()
}

// startRank starts another process that locks what hold is told.
func startRank(t *testing.T, what string) rank {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), holding+"="+what)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if said, _ := bufio.NewReader(out).ReadString('\n'); said != "held\n" {
		t.Fatalf("the other process said %q", said)
	}
	end := func() {
		in.Close()
		_ = c.Wait()
	}
	t.Cleanup(end)
	return rank{c, end}
}

// hurry sets for how long processes are waited for.
func hurry(t *testing.T, limit time.Duration, tell func(line string)) {
	lock.SetPatience(lock.Patience{Limit: limit, Tell: tell})
	t.Cleanup(func() { lock.SetPatience(lock.Patience{Limit: time.Minute, Tell: func(line string) {}}) })
}

// Another job, or a rank of an earlier run that still lives, which may be any rank: the
// others have ended.
func TestLock_AnotherRunLives(t *testing.T) {
	for _, orphan := range []string{"first", "second"} {
		path := filepath.Join(t.TempDir(), LockFile)
		first := startRank(t, "first "+path)
		second := startRank(t, path)
		lives := first
		if orphan == "first" {
			second.end()
		} else {
			first.end()
			lives = second
		}
		var said []string
		hurry(t, 200*time.Millisecond, func(line string) { said = append(said, line) })
		l, err := takeLock(path, "u", "7", rand.Text(), "n1")
		node, _ := os.Hostname()
		who := fmt.Sprintf("process %d on %s", lives.Process.Pid, node)
		if l != nil || !errors.Is(err, lock.ErrTimeout) || !strings.HasPrefix(err.Error(), who+" is still running on this node, as a rank of an earlier run, which has to be ended (kill it)") {
			t.Errorf("%s: error %v", orphan, err)
		}
		if len(said) == 0 || !strings.HasPrefix(said[0], "waiting for "+who+" to end") {
			t.Errorf("%s: said %q", orphan, said)
		}
		// It keeps no lock of its own, with which it would be in the way of others.
		lives.end()
		startRank(t, "first "+path)
	}
}

// What is left of an earlier run is waited for: it ends once the wait has been reported.
func TestLock_EarlierRunEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), LockFile)
	r := startRank(t, "first "+path)
	var said []string
	hurry(t, 10*time.Second, func(line string) { said = append(said, line); r.end() })
	l, err := takeLock(path, "u", "7", rand.Text(), "n1")
	if err != nil || len(said) != 1 {
		t.Errorf("%v, said %q", err, said)
	}
	l.Release()
}

// If one rank cannot take its part of the lock, none waits for it.
func TestOpen_LockFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "control/u/scr.1", LockFile)
	var once sync.Once
	watch := func(rank int) {
		// The first rank has locked it, and sends its next message, without which the other does not continue.
		if _, err := os.Lstat(path); rank == 0 && err == nil {
			once.Do(func() { must(t, errors.Join(os.Remove(path), os.Mkdir(path, 0o700))) })
		}
	}
	_, err := local.Run(2, local.Options{Watch: watch, Timeout: 5 * time.Second}, func(world mpi.Comm) error {
		k, err := Open(Config{
			World: world, Node: world, NodeRanks: []int{0, 1}, Control: Base{Dir: filepath.Join(dir, "control")}, User: "u", JobID: "1", Prefix: "/prefix",
			Stores: []*reddesc.Store{{Name: "store", Base: filepath.Join(dir, "cache"), Comm: world}},
			Piece:  64, Distribute: true, Log: &report.Logger{Rank: world.Rank(), Node: "node"},
		}, "test", nil)
		if err == nil {
			return errors.Join(errors.New("it is open"), k.Close())
		}
		var agreed *mpi.AgreedError
		if !errors.As(err, &agreed) {
			return err
		}
		return nil
	})
	must(t, err)
}
