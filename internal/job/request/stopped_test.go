package request

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/sys/processes"
)

func TestStopped(t *testing.T) {
	dir := directory(t)
	var pids []int
	for range 2 {
		cmd := exec.Command("sleep", "1000")
		must(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		pids = append(pids, cmd.Process.Pid)
	}
	slices.Sort(pids)
	must(t, RecordStopped(dir, "a", pids, false))
	must(t, RecordStopped(dir, "b", nil, false))
	for _, pid := range pids {
		must(t, unix.Kill(pid, unix.SIGSTOP))
	}
	list, err := StoppedNodes(dir)
	if err != nil || len(list) != 2 || list[0].Node != "a" || !list[0].Here() || !slices.Equal(list[0].PIDs(), pids) {
		t.Fatalf("%+v, %v", list, err)
	}
	other := list[0]
	other.Boot = "another"
	if other.Here() {
		t.Error("processes of another kernel are here")
	}
	list[0].Ranks[1] = process{12345} // another process has the number now
	if n, err := list[0].Continue(dir); n != 2 || err != nil {
		t.Errorf("%d continue, %v", n, err)
	}
	for _, pid := range pids {
		if p, err := processes.Read(pid); err != nil || p.State == 'T' {
			t.Errorf("%+v, %v", p, err)
		}
	}
	must(t, ForgetStopped(dir, "b"))
	must(t, ForgetStopped(dir, "b"))
	if list, err := StoppedNodes(dir); len(list) > 0 || err != nil {
		t.Error(list, err)
	}
	must(t, hash.WriteFile(StoppedPath(dir, "c"), hash.New()))
	if list, err := StoppedNodes(dir); len(list) != 1 || list[0].Here() || err != nil {
		t.Error(list, err)
	}
}

// Processes that wait for debuggers leave one by one, or are all let go by the removal of their
// record, from any node.
func TestStopped_Gate(t *testing.T) {
	dir := directory(t)
	pid, other := os.Getpid(), os.Getppid()
	gone := func() bool {
		_, err := os.Stat(StoppedPath(dir, "a"))
		return errors.Is(err, fs.ErrNotExist)
	}
	must(t, RecordStopped(dir, "a", []int{pid, other}, true))
	must(t, LeaveGate(dir, "a", pid))
	list, err := StoppedNodes(dir)
	if err != nil || len(list) != 1 || !list[0].Here() || !slices.Equal(list[0].PIDs(), []int{other}) {
		t.Fatalf("%+v, %v", list, err)
	}
	must(t, LeaveGate(dir, "a", other))
	if !gone() {
		t.Error("nobody waits, and there is a record")
	}
	must(t, RecordStopped(dir, "a", []int{pid, other}, true))
	list, err = StoppedNodes(dir)
	must(t, err)
	list[0].Boot = "another"
	if n, err := list[0].Continue(dir); n != 2 || err != nil || !list[0].Here() || !gone() {
		t.Errorf("%d continue, %v", n, err)
	}
	must(t, LeaveGate(dir, "a", pid)) // as it leaves after that
	if !gone() {
		t.Error("one that was let go has made a record")
	}
}

// No record is ever without processes: it would lack GATE and BOOT too, so no command could continue it.
func TestLeaveGate_WritesNoEmptyRecord(t *testing.T) {
	dir := directory(t)
	pid := os.Getpid()
	must(t, RecordStopped(dir, "a", []int{pid}, true))
	watch, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	must(t, err)
	defer unix.Close(watch)
	_, err = unix.InotifyAddWatch(watch, filepath.Dir(StoppedPath(dir, "a")), unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_DELETE)
	must(t, err)
	must(t, LeaveGate(dir, "a", pid)) // it removes the record
	must(t, LeaveGate(dir, "a", pid)) // there is none
	events := make([]byte, 64<<10)
	n, err := unix.Read(watch, events)
	must(t, err)
	var masks []uint32 // of the events of the record
	for at := 0; at < n; {
		e := (*unix.InotifyEvent)(unsafe.Pointer(&events[at]))
		name := events[at+unix.SizeofInotifyEvent : at+unix.SizeofInotifyEvent+int(e.Len)]
		if string(bytes.TrimRight(name, "\x00")) == filepath.Base(StoppedPath(dir, "a")) {
			masks = append(masks, e.Mask)
		}
		at += unix.SizeofInotifyEvent + int(e.Len)
	}
	if !slices.Equal(masks, []uint32{unix.IN_DELETE}) {
		t.Errorf("events of the record %#x", masks)
	}
}

// A process leaves while scr_checkpoint --continue removes the record: it does not write it again, on
// which the others would wait for ever.
func TestStopped_GateOpensWhileOneLeaves(t *testing.T) {
	dir := directory(t)
	for range 20 {
		must(t, RecordStopped(dir, "a", []int{os.Getpid(), os.Getppid()}, true))
		list, err := StoppedNodes(dir)
		must(t, err)
		leaves, err := hash.LockOpenRead(StoppedPath(dir, "a")) // as LeaveGate
		must(t, err)
		began, opened := make(chan struct{}), make(chan error)
		go func() {
			close(began)
			_, err := list[0].Continue(dir)
			opened <- err
		}()
		<-began
		must(t, leaves.WriteCloseUnlock())
		must(t, <-opened)
		if list, err := StoppedNodes(dir); len(list) > 0 || err != nil {
			t.Fatalf("%+v, %v", list, err)
		}
	}
}
