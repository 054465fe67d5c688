package main

import (
	"fmt"
	"math"

	"github.com/spf13/pflag"
)

var ckptIntervalCommand = command{
	names:    []string{"scr_ckpt_interval"},
	short:    "the time between checkpoints with which a job is done soonest",
	synopsis: []string{"--cost SECONDS --mtbf SECONDS [--restart SECONDS]"},
	long: `Prints the interval of Daly's formula, and what part of the time is then computing that is kept.
SCR_CHECKPOINT_SECONDS is the parameter that sets an interval; with SCR_MTBF_SECONDS the library finds it itself,
from what checkpoints cost.`,
	examples: `A node fails once in five years, the job has 1000 of them, and a checkpoint takes half a minute:

    scr_ckpt_interval --cost 30 --mtbf $((5 * 365 * 86400 / 1000))`,
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		cost := flags.Float64P("cost", "c", 0, "a checkpoint takes `SECONDS`")
		mtbf := flags.Float64P("mtbf", "m", 0, "mean time of `SECONDS` between failures of the job: that of a node divided by the number of nodes")
		restart := flags.Float64P("restart", "r", 0, "it takes `SECONDS` from a failure to computing again")
		return func([]string) error {
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
