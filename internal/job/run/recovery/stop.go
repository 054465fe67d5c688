package recovery

import "strings"

// stop ends the job. It always decides.
func stop(_ Situation, passed []Pass) (*Plan, string) {
	if len(passed) == 0 {
		return &Plan{Did: "SCR_RECOVERY says to stop after a failure"}, ""
	}
	var list []string
	for _, p := range passed {
		list = append(list, p.Rung+": "+p.Why)
	}
	return &Plan{Did: "the job cannot continue: " + strings.Join(list, "; ")}, ""
}
