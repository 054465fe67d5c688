// # How a program takes part in its checkpoints
//
// A program takes part in its checkpoints by libscr_cr.so (cr/lib, header scr_cr.h). That library is C
// only: a process has one Go runtime, that of libscr.so, which exports the functions of cmd/libscr/inside.h
// for it. libscr.so wraps nothing of MPI.
//
//  1. SCR_CR_INC_register_callback (cr/lib/inc.c) stores the address of the function in
//     inside.Callbacks (cr/inside/inc.go) and returns the one before it. Whoever registers calls that;
//     goscr calls only the last.
//  2. SCR_Start_output (cmd/libscr/api.c) calls goscr_cr_notify (inside.c) before and, if it fails,
//     after its work, and the functions that complete a dataset call it after theirs. It asks Go for
//     the next function (go_inc_next), calls it, and returns its result to the caller, until there is none.
//  3. A function of the program thus runs on the thread that has called, with no Go frame, handler or
//     lock of goscr below it: it may call the library, exit, or leave by longjmp, and a debugger shows
//     the program's frames only.
//  4. A function that refuses makes Callbacks.Refused an error of this rank, on which all ranks agree
//     in the call that was to begin the checkpoint (with in main.go); then those that were prepared
//     are called with ERROR. Without callbacks a call costs a test of one variable.
//
// A program that saves itself by three functions begins the library in MPI_Init (cr/lib/self.c), if any
// rank has one of them. goscr_cr_checkpoint (inside.c) then has the same form: inside.Start
// (cr/inside/self.go) begins a checkpoint and makes Session.Directory (internal/session/directory.go), a
// directory of the rank in the dataset, the working directory; the program's function runs; inside.Complete
// goes back and completes the checkpoint, for which enterOwn enters all files that are there. So rule 1 of
// docs/architecture.md has an exception: these files are entered after they are made. If the job dies
// before that, the dataset was not completed, and the next run deletes its whole directory.
//
// Nobody may call at all: notify.c has a thread on each rank, if MPI allows threads (MPI_Init asks for that
// if it finds the functions).
//
//  1. Rank 0's thread asks every tenth of a second whether a checkpoint is due (goscr_cr_due,
//     Advisor.Due): a command has asked, an interval is over, or the job is to end. Then it sends an
//     order down a binary tree of the ranks' threads, over a communicator of its own.
//  2. All threads call goscr_cr_need and goscr_cr_checkpoint, collective calls like those of a
//     program. The program's function runs in one more thread, so that SCR_CR_LIMIT_SECONDS can end
//     the wait for it, and with a working directory of its own (unshare).
//  3. A collective call that the program makes itself waits for its turn (goscr_turn in call.h): rank
//     0's thread orders it when rank 0 is about to make it. So all ranks come to the calls of the
//     program and to those of the threads in the same order.
//  4. With SCR_CR_THREAD=0 the threads agree that each program's thread has come to a call of MPI,
//     which then calls the function; else, after the limit, none does. A rank in a call that is not
//     interrupted (it makes a communicator, say), and waits there for one that has come, is one such
//     case.
//
// Messages in transit (cr/lib/quiet.c, calls.c):
//
//   - Counting. libscr_cr.so has the calls of MPI that send and receive under their own names. Each
//     increments one number for the other rank, in a table that a communicator keeps; a blocking call
//     over MPI_COMM_WORLD takes no lock and enters no Go. A receive that was begun is in a table of
//     requests, and counts when it has completed. With MPI_THREAD_MULTIPLE a lock is taken. What goscr
//     itself sends is not counted: it calls MPI by its second names, which begin with P.
//   - Quiescence. goscr_quiet tells each rank how much it has been sent (quiet.Bookmarks), and
//     receives what is missing by matched probes over every communicator into quiet.Drained. As long
//     as that holds messages, receives and probes ask it before MPI; while it is empty that costs one
//     load. A message reaches the buffer of the program as a message of the process to itself, so that
//     MPI converts, truncates and completes it.
//   - Communicators are numbered alike on their ranks, and in a later run: by the number of the
//     parent, and how many were made of it before.
//   - In a call of MPI. If functions may be called without a call of the program, a call that waits
//     begins the nonblocking operation, and tests it and goscr_notify_called in turn. The snapshot
//     (goscr_snapshot) has what such a call has done and the program has not seen: a copy of each
//     message that a receive has got, in the order in which receives were begun, and each call that
//     sends and has not returned (struct under_way). After a restart the same call of the program
//     finds its note, and sends nothing. A blocking collective operation is only counted.
//   - Coming together (SCR_CR_THREAD=0). In rounds (come_together) the ranks exchange how many
//     collective operations each has begun over each communicator. A rank that has begun fewer than
//     another continues until it has begun as many. If a round changes nothing, all ranks continue
//     by one call, because one of them may wait for a message of those that wait here.
//   - Beside the program (the default). When the function has returned it closes a gate
//     (close_gate): the program's threads wait where they enter MPI, or test what they wait for.
//     Meanwhile the rank receives what others still send, until the function has returned on all
//     ranks. Then messages are brought to rest and saved. The gate opens before the function that
//     continues is called.
//   - Images of processes (cr/image). scr_image is a program that calls SCR, and starts another one
//     on each rank. Program runs the site's commands, which save that one's process to
//     Session.Directory and start it again from there; Job has the order of a program that calls SCR:
//     restart, loop, checkpoint. The program is killed with its rank (PR_SET_PDEATHSIG), and gets no
//     descriptor of MPI.
//   - Restart and migration by call. Session.RestartFrom and Migrate (internal/session/ask.go) enter
//     in migrate.scr what scr_migrate does; scr_run ends the run.
//   - Stops are by a signal for the thread that calls (processes.Stop): one for the process may be
//     for another thread, and the caller would continue meanwhile.
package inside
