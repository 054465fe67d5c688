// # A protection in the background, step by step
//
// With SCR_ENCODE_ASYNC=1 the program continues once its files are recorded; with AUTO if that costs less (choose.go).
//
//  1. Protector.Complete (internal/lifecycle/protect/protect.go) waits for the protection of the
//     dataset before, gets a communicator of the set's members (carrier.go), and calls
//     Cache.CompleteFirst: that agrees that all files are valid, enters the redundancy file in the
//     filemap, and records the dataset as complete with one file more than it has, as UsableList.include
//     does where redundancy could not be made again (bare).
//  2. Queue (internal/lifecycle/background): a protection is a task, and the copy of a flush by a
//     thread is one, with the limits of SCR_FLUSH_ASYNC_*, one thread with a lower priority, and the
//     same Begin, Ended, Wait and Cancel. A protection does not wait for the copy of an older dataset,
//     on which others of its set would wait, too: copies pause at their next Pace.Spent while one is
//     under way. So a dataset is protected before it is copied, and the copy gets the checksums that
//     the protection has found (mover.Request.Late). scr_transfer, which may begin at once, gets the
//     dataset when it is protected (Flusher.later).
//  3. Messages. sockets.New(set.Comm) connects the members of a set in the first Complete, on the
//     caller's thread, and again if a connection was lost. All protections use one communicator of it,
//     until one has failed. With SCR_ENCODE_CARRIER=MPI and MPI_THREAD_MULTIPLE it is made of set.Comm
//     (mpi.Concurrent). Only the thread of the queue uses that one: to cancel a protection then is to
//     read nothing more, and to end the exchange with zeros. A thread takes part in that even if it
//     has not begun before. If the session cannot continue, the thread revokes its communicator, or the
//     caller does if there is no thread yet, since others may wait for it.
//  4. Protection.Run works on clones: the thread writes no filemap and changes no Meta. Flusher.Poll
//     asks by the reduction with which it asks for copies whether all ranks have ended, and
//     Cache.Protected records the redundancy on all ranks. Until then flush.scr has the dataset as
//     EXPOSED.
//  5. Who stays. The newest checkpoint that is protected has the worth of the newest
//     (Room.worth). Room.Leaving waits for the protection if that checkpoint would leave, and
//     says so. With SCR_CACHE_SIZE=2 that is in the next Start; with 3 in the next Complete. With 1
//     there would be none: a warning, and Complete encodes. Datasets of earlier runs that are not used
//     stay until a checkpoint of this run is protected (writer.protected).
//  6. Who waits. A flush for which the program waits, SCR_Finalize, a job that is to stop, and 5. If a
//     thread has done less than Share when all ranks wait, and uses TCP, all threads end, and the call
//     protects the dataset from the beginning over the program's MPI (takeOver). Copies do not wait for
//     that, and errors that threads have had are not said.
//     Deletion cancels. The cost of a checkpoint by which Advisor.Need says when the next is due ends
//     with Complete.
//  7. A kill without a lost node leaves files without redundancy on some ranks (exposed), or on
//     all: repairer.repair makes the redundancy of what has all files of the program, and the dataset is
//     used. With a lost node a set has members that are lost and others that are exposed, more
//     than the scheme bears: the dataset is passed over, and the protected one is used. If a kill
//     comes while only some ranks have recorded the dataset, the others count as lost: the same.
//  8. Errors of the thread stay with its task. Cache.Protected agrees on them: the rank that has
//     one warns, and the dataset is encoded while the program waits, in that call. If that fails, too,
//     it stays in the cache without protection, with a warning, and leaves before the one that is
//     protected. A file that has changed, or storage without room, is an error of this kind; no panic
//     leaves the thread (report.Recover).
//  9. A rank dies while others encode: its connections end, or do not answer for the limit of
//     sockets.Options, and each of its peers gets an error and tells the rest of the set, so that no
//     thread waits. Other sets continue. Nothing more is said until the program's MPI returns: as a rule
//     the launcher ends the job.
//  10. In the process. Between calls the descriptors 0, 1 and 2 are not held. So with Job.Behind a
//     protection opens files by internal/sys/descriptors. The goroutine that moves data has its thread's priority lowered by Options.Before. Files are closed when an
//     operation ends early, but buffers of an MPI (mpi.Alloc) stay until the process ends, since it may
//     still use them; internal/mpi/sockets does not, after a revocation or a failure (buffer.Loan).
//  11. Tests. Each cluster of the tests of internal/session has a mode (modeOf in
//     internal/session/cluster_test.go), so that losses, kills, moves and corruption are tested in all
//     of them: GOSCR_TEST_ENCODE=sockets go test ./internal/session. With mpi a kill comes in place of
//     any message of the thread, too. Any operation of the thread fails in
//     internal/redundancy/sockets_test.go (mpitest.Faulty), any frame in
//     internal/mpi/sockets/fault_test.go.
package protect
