package scr_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
	"github.com/goscr/goscr/scr"
)

// cell is an element of a field.
type cell struct {
	Temperature float64
	Kind        [3]uint8
	Neighbours  struct{ Left, Right int32 }
}

// model counts to ten on each rank, by variables, and writes every third step. With fail it ends after that step.
func model(world mpi.Comm, environ func(string) (string, bool), fail int) (from int, err error) {
	s, err := scr.Init(world, scr.Options{Environ: environ, Log: io.Discard})
	if err != nil {
		return 0, err
	}
	step := 0
	field := make([]cell, 100+world.Rank())
	vars := s.Variables()
	if err := errors.Join(scr.ProtectValue(vars, 0, &step), scr.Protect(vars, 1, field)); err != nil {
		return 0, err
	}
	version, ok, err := vars.Newest("field", 0)
	if ok {
		err = vars.Restart("field", version)
	}
	if err != nil {
		return 0, err
	}
	for from = step; step < 10; {
		step++
		for i := range field {
			if field[i].Temperature != float64((step-1)*i) || field[i].Neighbours.Right != int32(step-1) {
				return 0, fmt.Errorf("rank %d, step %d: cell %d is %v", world.Rank(), step, i, field[i])
			}
			field[i].Temperature, field[i].Neighbours.Right = float64(step*i), int32(step)
		}
		if step%3 == 0 {
			if err := s.Variables().Checkpoint("field", step); err != nil {
				return 0, err
			}
		}
		if step == fail {
			break
		}
	}
	return from, s.Finalize()
}

func TestVariables(t *testing.T) {
	root := t.TempDir()
	for _, x := range []struct{ fail, from int }{{7, 0}, {8, 6}, {0, 6}, {0, 9}} {
		_, err := local.Run(4, local.Options{}, func(world mpi.Comm) error {
			node := fmt.Sprintf("%s/node%d", root, world.Rank())
			from, err := model(world, func(name string) (string, bool) {
				value, ok := map[string]string{"SCR_NODE_NAME": node[len(root)+1:], "SCR_CACHE_BASE": node, "SCR_CNTL_BASE": node, "SCR_PREFIX": root,
					"SCR_JOB_ID": "job", "SCR_FLUSH": "0", "SCR_USER_NAME": "user"}[name]
				return value, ok
			}, x.fail)
			if err == nil && from != x.from {
				err = fmt.Errorf("it continues from step %d, want %d", from, x.from)
			}
			return err
		})
		if err != nil {
			t.Fatalf("%v: %v", x, err)
		}
		if err := os.RemoveAll(root + "/node2"); err != nil { // between two runs a node is lost
			t.Fatal(err)
		}
	}
}

// Sizes are known before slices are made; groups have variables of their own.
func TestVariables_Parts(t *testing.T) {
	root := t.TempDir()
	environ := func(name string) (string, bool) {
		value, ok := map[string]string{"SCR_CACHE_BASE": root, "SCR_CNTL_BASE": root, "SCR_PREFIX": root, "SCR_NODE_NAME": "node"}[name]
		return value, ok
	}
	s, err := scr.Init(local.One(), scr.Options{Environ: environ, Log: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	vars := s.Variables()
	list := []int16{1, 2, 3}
	own := []int64{4}
	if err := errors.Join(scr.Protect(vars, 1, list), scr.Protect(vars.Group("own"), 1, own), vars.Checkpoint("any", 1), vars.Checkpoint("own", 5), vars.Wait()); err != nil {
		t.Fatal(err)
	}
	if err := vars.Begin("any", 1); err != nil {
		t.Fatal(err)
	}
	n, ok, err := vars.Size(1)
	if n != 6 || !ok || err != nil {
		t.Fatal(n, ok, err)
	}
	if _, ok, err = vars.Size(2); ok || err != nil {
		t.Fatal(ok, err)
	}
	again := make([]int16, n/2)
	if err := errors.Join(scr.Protect(vars, 1, again), vars.Read(), vars.End(true)); err != nil || !slices.Equal(again, list) {
		t.Fatal(again, err)
	}
	if version, ok, err := vars.Newest("own", 0); version != 5 || !ok || err != nil {
		t.Fatal(version, ok, err)
	}
	if !vars.Unprotect(1) || vars.Unprotect(1) {
		t.Error("Unprotect")
	}
	if err := vars.End(true); err == nil {
		t.Error("End without Begin")
	}
	if err := s.Finalize(); err != nil {
		t.Error(err)
	}
}

// What has no fixed size is refused.
func TestVariables_Types(t *testing.T) {
	s, err := scr.Init(local.One(), scr.Options{Environ: func(name string) (string, bool) {
		value, ok := map[string]string{"SCR_CACHE_BASE": t.TempDir(), "SCR_CNTL_BASE": t.TempDir(), "SCR_PREFIX": t.TempDir()}[name]
		return value, ok
	}, Log: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Finalize()
	v := s.Variables()
	for _, err := range []error{
		scr.Protect(v, 1, []string{"a"}), scr.Protect(v, 1, [][]int{{1}}), scr.Protect(v, 1, []*int{nil}), scr.Protect(v, 1, make([]struct{ m map[int]int }, 1)),
		scr.Protect(v, 1, []any{1}), scr.Protect(v, 1, [][2]func(){{}}), scr.Protect(v, 1, []uintptr{1}),
	} {
		if err == nil || !strings.Contains(err.Error(), "no fixed size") {
			t.Error(err)
		}
	}
	for _, id := range []int{1 << 32, -1 << 40} {
		if err := scr.Protect(v, id, []int{1}); err == nil || !strings.Contains(err.Error(), "an id is from") {
			t.Error(err)
		}
	}
	if err := errors.Join(scr.Protect(v, 1, []struct{}{{}}), scr.Protect[int](v, 2, nil), scr.Protect(v, 3, []complex64{1})); err != nil {
		t.Error(err)
	}
}
