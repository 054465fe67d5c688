# How long a checkpoint blocks the program, by the speed of the links; from blocked.tsv.
reset
set terminal svg size 640,360 font "sans-serif,13" background "white"
set output "blocked.svg"
set title "goscr blocks the program for as long as plain TCP takes for the bytes"
set datafile separator "\t"
set xlabel "rate of a node's link in each direction (Gbit/s)"
set ylabel "SCR\\_Complete\\_output (s), 64 MiB a rank"
set logscale x 2
set yrange [0:1.4]
set xrange [0.9:5]
set xtics (1, 2, 4)
set grid ytics lc rgb "#dddddd"
set border 3
set tics nomirror
set key top right Left reverse samplen 2
plot "blocked.tsv" using 1:5 with linespoints lw 2 pt 5 lc rgb "#b45f06" title "SCR 3.1", \
     ""            using 1:3 with linespoints lw 2 pt 7 lc rgb "#1f5fa8" title "goscr", \
     ""            using 1:2 with lines lw 2 dt 2 lc rgb "#888888"  title "plain TCP, as many bytes", \
     ""            using 1:4 with linespoints lw 2 pt 9 lc rgb "#2e7d32" title "goscr, SCR\\_ENCODE\\_ASYNC=1"
