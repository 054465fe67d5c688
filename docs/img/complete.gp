# Where the time of SCR_Complete_output goes; from complete.tsv.
reset
set terminal svg size 640,320 font "sans-serif,13" background "white"
set output "complete.svg"
set title "Protecting a checkpoint takes 1.2 to 2.0 times as long as writing it"
set datafile separator "\t"
set style data histograms
set style histogram rowstacked
set style fill solid 0.9
set boxwidth 0.55
set ylabel "multiples of the program's own write"
set yrange [0:]
set grid ytics lc rgb "#dddddd"
set border 3
set tics nomirror
set key outside right Left reverse invert samplen 1
plot "complete.tsv" using 2:xtic(1) lc rgb "#1f5fa8" title "to read files", \
     "" using 3 lc rgb "#6fa8dc" title "messages", \
     "" using 4 lc rgb "#2e7d32" title "to store redundancy", \
     "" using 5 lc rgb "#bbbbbb" title "checksums, sums, waits"
