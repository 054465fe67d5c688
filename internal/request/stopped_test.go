package request

import (
	"os/exec"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/processes"
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
	must(t, RecordStopped(dir, "a", pids))
	must(t, RecordStopped(dir, "b", nil))
	for _, pid := range pids {
		must(t, unix.Kill(pid, unix.SIGSTOP))
	}
	list, err := StoppedNodes(dir)
	if err != nil || len(list) != 2 || list[0].Node != "a" || !list[0].Here() || !slices.Equal(list[0].PIDs(), pids) {
		t.Fatalf("%+v, %v", list, err)
	}
	other := list[0]
	other.boot = "another"
	if other.Here() {
		t.Error("processes of another kernel are here")
	}
	list[0].ranks[1] = 12345 // another process has the number now
	if n, err := list[0].Continue(dir); n != 2 || err != nil {
		t.Errorf("%d go on, %v", n, err)
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
	must(t, hash.WriteFile(stoppedPath(dir, "c"), hash.New()))
	if list, err := StoppedNodes(dir); len(list) != 1 || list[0].Here() || err != nil {
		t.Error(list, err)
	}
}
