package recovery

import "time"

// Costs are what a migration has cost in this job.
type Costs struct {
	Checkpoint time.Duration // until a checkpoint that was asked for was complete
	Move       time.Duration // from then on until the files were on the new nodes
}

// Assumed are the costs as long as none are measured.
var Assumed = Costs{Checkpoint: 10 * time.Second, Move: 30 * time.Second}

// Reaction is what to do about a prediction.
type Reaction string

// The reactions.
const (
	Migrate    Reaction = "migrate"    // move the ranks of the node
	Checkpoint Reaction = "checkpoint" // there is time for a checkpoint only
	Save       Reaction = "save"       // for no checkpoint either: copy what the node has
)

// React decides what to do about a node that is predicted to fail within a time; less than
// 0 if that is not known, and the reaction is to migrate then.
func (c Costs) React(within time.Duration) Reaction {
	switch {
	case within < 0 || within >= c.Checkpoint+c.Move:
		return Migrate
	case within >= c.Checkpoint:
		return Checkpoint
	}
	return Save
}
