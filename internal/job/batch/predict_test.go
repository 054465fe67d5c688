package batch

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// The output has the format that the manual of Slurm 22.05 shows.
func TestSlurm_Predict(t *testing.T) {
	called := commands(t, map[string]string{
		"sinfo": `
node1|allocated|none
node2|draining|bad fan
node2|draining|bad fan
node3|failing|ECC errors
node4|drained*|Kill task failed
node9|draining|not ours`,
		"scontrol": `
ReservationName=maint StartTime=2026-11-22T18:00:00 EndTime=2026-11-22T20:00:00 Duration=02:00:00 Nodes=node[1,9] NodeCnt=2 CoreCnt=8 Features=(null) PartitionName=(null) Flags=MAINT,IGNORE_JOBS,SPEC_NODES TRES=cpu=8 Users=root Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null) Watts=n/a MaxStartDelay=(null)
ReservationName=class StartTime=2026-11-22T17:10:00 EndTime=2026-11-22T20:00:00 Duration=02:50:00 Nodes=node[1-4] NodeCnt=4 Flags=SPEC_NODES State=INACTIVE
ReservationName=over StartTime=2026-11-21T17:10:00 EndTime=2026-11-21T20:00:00 Duration=02:50:00 Nodes=node[1-4] NodeCnt=4 Flags=MAINT State=INACTIVE`,
	})
	now := time.Date(2026, 11, 22, 17, 0, 0, 0, time.UTC)
	list, err := slurm{environ(nil)}.Predict(t.Context(), []string{"node1", "node2", "node3", "node4"}, now)
	must(t, err)
	var got []string
	for _, p := range list {
		got = append(got, fmt.Sprintf("%s %v %v: %s", p.Node, p.Within, p.Assurance, p.Why))
	}
	want := `node2 -1ns 1: Slurm says draining (bad fan)
node3 -1ns 1: Slurm says failing (ECC errors)
node4 -1ns 1: Slurm says drained* (Kill task failed)
node1 1h0m0s 1: reservation maint for maintenance at 2026-11-22 18:00:00`
	if strings.Join(got, "\n") != want {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
	if text := strings.Join(called(), "\n"); !strings.Contains(text, "scontrol --oneliner show reservation") {
		t.Error(text)
	}
}

func TestSlurm_PredictNothing(t *testing.T) {
	commands(t, map[string]string{"sinfo": "node1|allocated|none", "scontrol": "No reservations in the system"})
	if list, err := (slurm{environ(nil)}).Predict(t.Context(), []string{"node1"}, time.Now()); len(list) > 0 || err != nil {
		t.Error(list, err)
	}
	commands(t, map[string]string{"sinfo": "node1|allocated|none", "scontrol": "ReservationName=x Nodes=node1 Flags=MAINT StartTime=soon EndTime=later"})
	if _, err := (slurm{environ(nil)}).Predict(t.Context(), []string{"node1"}, time.Now()); err == nil {
		t.Error("a time that is none")
	}
}

func TestParsePredictions(t *testing.T) {
	list, err := ParsePredictions("n1\n\n# nothing\nn2 60 0.5 fan is slow\nn3 - 0.25\nn4 1.5\n")
	must(t, err)
	want := []Prediction{{"n1", "predicted", -1, 1}, {"n2", "fan is slow", time.Minute, 0.5}, {"n3", "predicted", -1, 0.25}, {"n4", "predicted", 1500 * time.Millisecond, 1}}
	if fmt.Sprint(list) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", list, want)
	}
	for _, text := range []string{"n1 soon", "n1 -5", "n1 60 2", "n1 60 NaN", "n1 NaN", "n1 60 x"} {
		if list, err := ParsePredictions(text); err == nil {
			t.Errorf("%q: %v", text, list)
		}
	}
}
