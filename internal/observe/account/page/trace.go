package page

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/goscr/goscr/internal/observe/account"
)

// event is one of Chrome's trace event format, which Perfetto reads too. Times are in
// microseconds since 1970. A run is a process, with a thread for the program and one for
// what continues in the background.
type event struct {
	Name  string         `json:"name"`
	Phase string         `json:"ph"`
	Time  int64          `json:"ts"`
	Took  *int64         `json:"dur,omitempty"`
	Run   int            `json:"pid"`
	Lane  int            `json:"tid"`
	Scope string         `json:"s,omitempty"`
	Args  map[string]any `json:"args,omitempty"`
}

// The threads of a run.
const (
	laneProgram = iota
	laneParts   // of restarts
	laneBackground
)

// Trace writes an account as a trace.
func Trace(w io.Writer, a *account.Account) error {
	var list []event
	for _, run := range a.Runs {
		list = append(list, event{Name: "process_name", Phase: "M", Run: run.Number, Args: map[string]any{"name": fmt.Sprintf("run %d of job %s", run.Number, run.Job)}})
		for lane, name := range []string{"program", "restart", "background"} {
			list = append(list, event{Name: "thread_name", Phase: "M", Run: run.Number, Lane: lane, Args: map[string]any{"name": name}})
		}
		for _, s := range run.Spans {
			lane := laneProgram
			switch s.Kind {
			case account.Background:
				lane = laneBackground
			case account.Rebuild, account.Fetch:
				lane = laneParts
			}
			took := s.Took().Microseconds()
			e := event{Name: string(s.Kind), Phase: "X", Time: s.Start.UnixMicro(), Took: &took, Run: run.Number, Lane: lane}
			if s.Name != "" || s.Failed != "" {
				e.Args = map[string]any{"dataset": s.Name, "failed": s.Failed}
			}
			list = append(list, e)
		}
		if run.Outcome == account.Died {
			list = append(list, event{Name: "died", Phase: "i", Time: run.End.UnixMicro(), Run: run.Number, Scope: "p", Args: map[string]any{"why": run.Why}})
		}
	}
	for _, f := range a.Failures {
		list = append(list, event{Name: "node lost", Phase: "i", Time: f.Time.UnixMicro(), Run: f.Run, Scope: "g", Args: map[string]any{"node": f.Note}})
	}
	return json.NewEncoder(w).Encode(map[string]any{"traceEvents": list, "displayTimeUnit": "ms"})
}
