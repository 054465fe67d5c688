// # How a scavenge works
//
// When the last run of an allocation has died, commands without MPI copy the datasets from the nodes to the
// prefix directory (internal/node/scavenge).
//
//  1. scr_copy, on every node that is still up: Copy.Run reads the node's filemaps, copies the files
//     of its ranks to temporary names, and their redundancy, and then writes the list of each rank.
//  2. scr_index --build, anywhere: Build reads the lists (scan.go); ranks that have none are rebuilt,
//     set by set (rebuild.go), by internal/redundancy/offline, which runs Scheme.Recover with a
//     goroutine for each member and has it make only the missing files; then prefix.Publish does the
//     same as a flush after its copies: list of files, older datasets, names, summary and index.
package scavenge
