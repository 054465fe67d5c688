package main

import (
	"fmt"
	"math"

	"github.com/spf13/pflag"
)

var ckptIntervalCommand = command{
	names: []string{"scr_ckpt_interval"},
	use:   "--cost SECONDS --mtbf SECONDS [--restart SECONDS]",
	short: "the time between checkpoints with which a job is done soonest",
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		cost := flags.Float64P("cost", "c", 0, "what a checkpoint takes")
		mtbf := flags.Float64P("mtbf", "m", 0, "mean time between failures of the job: that of a node divided by the number of nodes")
		restart := flags.Float64P("restart", "r", 0, "what it takes from a failure to computing again")
		return func(args []string) error {
			if err := noArguments(args); err != nil {
				return err
			}
			if !(*cost > 0 && *mtbf > 0 && *restart >= 0) || math.IsInf(*cost+*mtbf+*restart, 0) {
				return fmt.Errorf("--cost and --mtbf have to be more than 0; %w", errUsage)
			}
			t := daly(*cost, *mtbf)
			// Expected time to get one interval done, with failures at random.
			took := *mtbf * math.Exp(*restart / *mtbf) * math.Expm1((t+*cost) / *mtbf)
			fmt.Fprintf(c.out, "compute for %.0f s between checkpoints; %.1f %% of the time is then computing that is kept\n", t, 100*t/took)
			return nil
		}
	},
}

// daly is the interval of J. T. Daly, "A higher order estimate of the optimum
// checkpoint interval", 2006, equation 37.
func daly(cost, mtbf float64) float64 {
	if cost >= 2*mtbf {
		return mtbf
	}
	r := cost / (2 * mtbf)
	return math.Sqrt(2*cost*mtbf)*(1+math.Sqrt(r)/3+r/9) - cost
}
