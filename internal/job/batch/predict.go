package batch

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goscr/goscr/internal/job/hostlist"
)

// Prediction says that a node is likely to fail, or to be taken away.
type Prediction struct {
	Node      string
	Why       string
	Within    time.Duration // until then; less than 0: not known
	Assurance float64       // probability, 0 to 1
}

// Predictor is a manager that knows which of its nodes are about to be taken away.
type Predictor interface {
	// Predict returns the predictions about nodes.
	Predict(ctx context.Context, nodes []string, now time.Time) ([]Prediction, error)
}

// AsPredictor returns the manager as a Predictor, nil if it is none.
func AsPredictor(m Manager) Predictor {
	if c, ok := m.(configured); ok {
		m = c.Manager
	}
	p, _ := m.(Predictor)
	return p
}

// Predict returns the nodes that drain or are about to fail, and those that a reservation
// for maintenance takes.
func (s slurm) Predict(ctx context.Context, nodes []string, now time.Time) ([]Prediction, error) {
	text, err := output(ctx, "sinfo", "--noheader", "--Node", "--nodes="+hostlist.Compress(nodes), "--format=%N|%T|%E")
	if err != nil {
		return nil, err
	}
	var list []Prediction
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSpace(line), "|", 3)
		if len(fields) != 3 || !slices.Contains(nodes, fields[0]) || !slurmLeaves(fields[1]) {
			continue
		}
		if slices.ContainsFunc(list, func(p Prediction) bool { return p.Node == fields[0] }) { // a line for each partition
			continue
		}
		list = append(list, Prediction{fields[0], "Slurm says " + fields[1] + " (" + fields[2] + ")", -1, 1})
	}
	text, err = output(ctx, "scontrol", "--oneliner", "show", "reservation")
	if err != nil {
		return list, err
	}
	for line := range strings.Lines(text) {
		more, err := maintenance(line, nodes, now)
		if err != nil {
			return list, err
		}
		list = append(list, more...)
	}
	return list, nil
}

// slurmLeaves reports whether Slurm is about to take a node in this state away.
func slurmLeaves(state string) bool {
	state = strings.ToLower(state)
	return strings.HasPrefix(state, "drain") || strings.HasPrefix(state, "drng") || strings.HasPrefix(state, "fail")
}

// maintenance reads a line of `scontrol --oneliner show reservation`, and returns the nodes
// among those given that it takes for maintenance.
func maintenance(line string, nodes []string, now time.Time) ([]Prediction, error) {
	values := map[string]string{}
	for word := range strings.FieldsSeq(line) {
		key, value, _ := strings.Cut(word, "=")
		values[key] = value
	}
	if !slices.Contains(strings.Split(values["Flags"], ","), "MAINT") || values["Nodes"] == "" || values["Nodes"] == "(null)" {
		return nil, nil
	}
	taken, err := parseHosts("scontrol show reservation", values["Nodes"])
	if err != nil {
		return nil, err
	}
	const format = "2006-01-02T15:04:05" // in the time zone of the node
	start, err1 := time.ParseInLocation(format, values["StartTime"], now.Location())
	end, err2 := time.ParseInLocation(format, values["EndTime"], now.Location())
	if err1 != nil || err2 != nil {
		return nil, fmt.Errorf("scontrol show reservation: from %q to %q is not a time", values["StartTime"], values["EndTime"])
	}
	if end.Before(now) {
		return nil, nil
	}
	var list []Prediction
	for _, n := range hostlist.Intersection(nodes, taken) {
		list = append(list, Prediction{n, "reservation " + values["ReservationName"] + " for maintenance at " + start.Format(time.DateTime), max(start.Sub(now), 0), 1})
	}
	return list, nil
}

// ParsePredictions reads the output of SCR_PREDICT_COMMAND: a line for each node, with its
// name, and possibly the seconds within which it is to fail ("-" if that is not known), the
// probability, and a reason.
func ParsePredictions(text string) (list []Prediction, err error) {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		p := Prediction{Node: words[0], Within: -1, Assurance: 1, Why: "predicted"}
		if len(words) > 1 && words[1] != "-" {
			seconds, err := strconv.ParseFloat(words[1], 64)
			if err != nil || !(seconds >= 0 && seconds < 1e9) {
				return nil, fmt.Errorf("%q: %q is not a number of seconds", strings.TrimSpace(line), words[1])
			}
			p.Within = time.Duration(seconds * float64(time.Second))
		}
		if len(words) > 2 {
			if p.Assurance, err = strconv.ParseFloat(words[2], 64); err != nil || !(p.Assurance >= 0 && p.Assurance <= 1) {
				return nil, fmt.Errorf("%q: %q is not a probability from 0 to 1", strings.TrimSpace(line), words[2])
			}
		}
		if len(words) > 3 {
			p.Why = strings.Join(words[3:], " ")
		}
		list = append(list, p)
	}
	return list, nil
}
