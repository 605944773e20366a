# A Perl program with real work for the allocator: a text is made, its words are
# counted and indexed in hashes of arrays, matched, rewritten, sorted and joined.
#
# Usage: workload.pl [SCALE]    what it prints depends on SCALE alone
#
# SPDX-License-Identifier: MIT
use strict;
use warnings;

my $scale = @ARGV ? $ARGV[0] : 1;
my $sentences = int(30_000 * $scale) || 1;

# Our own generator: that of Perl differs between its builds.
my $state = 7;
sub draw { $state = ($state * 1103515245 + 12345) % 2147483648; return ($state >> 8) % $_[0]; }

my @syllables = qw(ba co du fe gi ho ju ka li mo nu pe qui ro su ta ve wo xi za);
my @words = map { join '', map { $syllables[draw(20)] } 0 .. draw(4) } 1 .. 5000;

for my $round (1 .. 5) {
    my @text;
    for my $number (1 .. $sentences) {
        push @text, ucfirst(join ' ', map { $words[draw(draw(5000) + 1)] } 1 .. 4 + draw(16)) . ($number % 5 ? '.' : '?');
    }

    my (%count, %where, %after);
    for my $number (0 .. $#text) {
        my $before = '';
        while ($text[$number] =~ /(\w+)/g) {
            my $word = lc $1;
            $count{$word}++;
            push @{ $where{$word} }, $number;
            $after{$before}{$word}++;
            $before = $word;
        }
    }
    my @by_count = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
    print join(' ', map { "$_=$count{$_}" } @by_count[0 .. 5]), "\n";

    my $pairs = 0;
    $pairs += keys %{ $after{$_} } for keys %after;
    my $spread = 0;
    for my $lines (values %where) { my %seen = map { $_ => 1 } @$lines; $spread += keys %seen; }
    print "$pairs pairs, $spread places\n";

    my @changed = map { (my $line = $_) =~ s/\b(\w+?)(co|du)(\w*)/<$2>$3-$1/g; $line } @text;
    my @sorted = sort { length $a <=> length $b || $a cmp $b } @changed;
    my $page = join "\n", map { sprintf '%-40.40s|%4d', $_, length } @sorted;
    my @fields = map { [ split /\s*\|\s*/ ] } split /\n/, $page;
    my $sum = 0;
    $sum += $_->[1] for @fields;
    printf "%d lines, %d characters, %s\n", scalar @fields, $sum, unpack('%32C*', $page);
}
