// # How a request reaches a job
//
// scr_checkpoint (cmd/scr/checkpoint.go) and a job communicate by one file in the prefix directory,
// request.scr (internal/job/request), because a login node and a job share nothing else.
//
//  1. The command finds the prefix directory (cmd/scr/findjob.go): if the user gives the process id
//     of a launcher, it searches the processes below it (internal/sys/processes). A job is running
//     there if its rank 0 holds job.lock. request.Ask enters the request, or joins one whose
//     checkpoint has not begun, and returns the id by which the command recognizes the answer.
//  2. Advisor.Need on rank 0 looks at the file by a stat in each call (request.Answers.Wanted), and
//     says yes in the message that it broadcasts anyway. Once a second it also opens the directory,
//     because a client of NFS asks the server only then.
//  3. writer.create records that the checkpoint has begun, and sends the other requests of the
//     command (to end the program, to stop all ranks) with the description of the dataset.
//     completeCached records that it is in the cache, requests.fulfil flushes it if the job is to end,
//     and requests.poll records when a flush in the background has ended. goscr writes the request file
//     only when the state changes.
//  4. SCR_Init removes open requests. A command that still waits notices this and enters its request
//     again. So no request outlives its command and ends a later job.
//
// scr_restart (cmd/scr/restart.go) needs no running job. record.gatherFacts has recorded in SCR_Init how
// the job was started (snapshot.Gather: if a reduction says that not all were started alike, ranks compare their command
// lines with their neighbours', and only those that begin another program send it to rank 0), in files that are named by their contents.
// record.refer records with each checkpoint which of these files describes its job. Record.Launch
// makes the command line. With --preload, Job.Preload (internal/job/run/preload.go) writes to preload.scr
// the ranks that each node will probably have, and runs scr_preload on all of them (internal/node/preload).
// A wrong guess costs time only: SCR_Init moves files that it finds in the caches to the nodes of their
// ranks.
package request
