// # How scr_run runs a job
//
// scr_run (cmd/scr/run.go) → run.Loop (internal/job/run/loop.go). It communicates with the program only
// through the prefix directory: flush.scr and the index show its progress (prefix.ReadProgress), nodes.scr
// how many nodes it uses, halt.scr whether to stop, and restart.scr whether it died while it read a
// checkpoint.
//
// Loop decides whether there is another run. allocation says which nodes are down or suspect, origin at which
// checkpoint the next run starts, placement on which nodes, and Program by which command line. running is the
// run. requests takes what is asked for in migrate.scr; foresight reacts to predictions; migrations moves ranks.
//
//  1. Before the first run before asks which nodes are up: Job.Down (health.go) asks the manager
//     (batch.Manager), and then all other nodes at the same time (remote.go: one srun or pdsh for all,
//     ssh for each, and once more alone those that did not answer). A node that was down stays down.
//  2. once: batch.Launcher writes the command line that avoids these nodes (command.go); watch.go
//     passes signals on and checks every second for scr_halt --immediate and, by the watchdog, for
//     progress. When the launcher says on stderr that it ends the run (messages.go), or rank 0 has
//     released its lock without SCR_Finalize, watch.go asks the nodes whether they are up, while the
//     launcher ends. When the launcher has ended, requests.takeLate reads whether the
//     program has asked to be started again just before that.
//  3. after decides whether the job is done, stops, or may run again. It asks the nodes if watch.go
//     has not, or if their answers are more than five seconds old; and once more before it condemns a
//     checkpoint, since a node may have failed after its answer. For a migration carry (migrate.go)
//     gets the answers. The next before decides how the program runs again (placement.go): it asks the
//     ways of internal/job/run/recovery in turn, by default the one that changes least first; each
//     gets a description of the job, and makes a plan or leaves it to the next way. messages.go finds,
//     in the launcher's messages on stderr, the node on which the first process died. Progress is a
//     checkpoint that was begun later than any before, by the clock of the job: a run that restarts
//     from an older checkpoint uses the later numbers again. migrate.go moves ranks: it asks for a
//     checkpoint (internal/job/request), copies files with internal/node/handover while it ends the
//     run, and has the way MIGRATE tell the launcher the node of each rank
//     (internal/job/batch/assign.go). Session.Init tells by migration.Ready that the program is there.
//     predict.go decides about predictions.
//  4. Postrun (scavenge.go): scr_copy on the nodes in two rounds, then scr_index --build.
package run
