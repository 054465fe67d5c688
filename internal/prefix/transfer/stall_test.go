package transfer

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/sys/trust"
	"github.com/goscr/goscr/test/faultfs"
)

func TestMain(m *testing.M) {
	faultfs.Main()
	os.Exit(m.Run())
}

// A file system that does not answer is reported, once, and the copy is right when it does.
func TestCopy_Stalled(t *testing.T) {
	for _, call := range []faultfs.Call{faultfs.Write, faultfs.Sync, faultfs.Close} {
		m := faultfs.New(t, faultfs.Options{Faults: []faultfs.Fault{{Call: call, Path: "dst"}}})
		src, md, data := source(t, 1000)
		dst := filepath.Join(m.Dir, "dst")
		told := make(chan string, 10)
		c := NewCopier(100)
		c.patience = 10 * time.Millisecond
		c.Stalled = func(err error) { told <- err.Error() }
		done := make(chan struct{})
		var failed error
		go func() {
			defer close(done)
			failed = c.Copy(src, dst, md)
		}()
		if !m.AwaitStuck(done) { // under load, a call before that one may be the first that is reported
			t.Fatal("not stuck:", failed)
		}
		if got := <-told; !strings.HasPrefix(got, dst+": ") {
			t.Error(got)
		}
		m.Release()
		<-done
		must(t, failed)
		got, err := os.ReadFile(dst)
		must(t, err)
		if string(got) != string(data) {
			t.Error("other bytes")
		}
		m.Set(faultfs.Options{})
	}
}

// Where modes, owners and times cannot be set, files are copied without, and one line says so. What
// is recorded of a file that has no checksum is the time that it has.
func TestCopy_NoAttributes(t *testing.T) {
	for _, errno := range []unix.Errno{unix.EPERM, unix.EOPNOTSUPP, unix.EINVAL, unix.ENOSYS} {
		m := faultfs.New(t, faultfs.Options{Attributes: errno})
		told := 0
		meta.OnRefusal(func(err error) {
			if told++; !errors.Is(err, errno) {
				t.Error(err)
			}
		})
		for _, blind := range []bool{false, true} {
			src, md, data := source(t, 1000)
			md.Hash().SetValue("MODE", "751")
			dst := filepath.Join(m.Dir, "d/dst")
			for range 2 { // the second time over the first
				c := NewCopier(100)
				c.Below, c.Blind = trust.Root(m.Dir), blind
				must(t, c.Copy(src, dst, md))
			}
			got, err := os.ReadFile(dst)
			info, e := os.Lstat(dst)
			if err != nil || e != nil || string(got) != string(data) {
				t.Errorf("%v: %v %v", errno, err, e)
			}
			if when, _ := md.Modified(); !when.Equal(info.ModTime()) {
				t.Errorf("%v: the file has %v, recorded is %v", errno, info.ModTime(), when)
			}
			must(t, os.RemoveAll(filepath.Dir(dst)))
		}
		meta.OnRefusal(nil)
		if told != 1 {
			t.Errorf("%v: %d lines", errno, told)
		}
		m.Set(faultfs.Options{})
	}
}

// A copy that keeps to a limit is not one that is stuck.
func TestCopy_NotStalledWhileItRests(t *testing.T) {
	src, md, _ := source(t, 300)
	c := NewCopier(100)
	c.patience = time.Hour
	c.Stalled = func(err error) { t.Error(err) }
	p := &copying{c: c, watch: c.watch("dst")}
	rests := 0
	c.Step = func(int) error {
		rests++
		if p.watch.timer.Stop() {
			t.Error("it is watched")
		}
		return nil
	}
	must(t, p.done(100))
	if rests != 1 || !p.watch.timer.Stop() {
		t.Error("it is not watched any more")
	}
	c.Step = nil
	must(t, c.Copy(src, filepath.Join(t.TempDir(), "dst"), md))
}
