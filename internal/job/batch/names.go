package batch

import "cmp"

// Names returns the name of the job and of the cluster, as the resource manager tells a job
// by environment variables; "" for one that it does not tell.
func Names(environ func(name string) (string, bool)) (job, cluster string) {
	get := func(name string) string {
		value, _ := environ(name)
		return value
	}
	return cmp.Or(get("SLURM_JOB_NAME"), get("LSB_JOBNAME"), get("PBS_JOBNAME")), get("SLURM_CLUSTER_NAME")
}
