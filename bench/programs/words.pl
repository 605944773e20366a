# Splits, counts, indexes and rewrites text: perl words.pl FILE PARAGRAPHS
# SPDX-License-Identifier: MIT
use strict;
use warnings;

my ($file, $paragraphs) = @ARGV;
open my $source, '<', $file or die "$file: $!\n";
local $/ = "";    # paragraph mode
my (%count, %follows, %index, @pages);
my $number = 0;
while (defined(my $paragraph = <$source>)) {
    last if $number == $paragraphs;
    my @words = map { lc } $paragraph =~ /(\w+)/g;
    $count{$_}++ for @words;
    $follows{ $words[$_] }{ $words[ $_ + 1 ] }++ for 0 .. $#words - 1;
    push @{ $index{$_} }, $number for @words;
    my $page = { number => $number, words => [@words], text => join ' ', map { ucfirst } @words };
    $page->{text} =~ s/(\w)(\w{4,})/$1 . reverse $2/ge;
    push @pages, $page;
    shift @pages if @pages > 500;
    $number++;
}

my @frequent = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
my $pairs = 0;
$pairs += keys %$_ for values %follows;
my $letters = 0;
$letters += length $_->{text} for @pages;
my %inverse;
push @{ $inverse{ scalar @{ $index{$_} } } }, $_ for sort keys %index;
print join(' ', $number, scalar(@frequent), $pairs, $letters, scalar(keys %inverse), @frequent[ 0 .. 4 ]), "\n";
