//! Tests of what no text can say: modules written by a program, and the laws of levels.

mod garbage;
mod lanes;
mod levels;
mod program;
mod random;
mod rules;
