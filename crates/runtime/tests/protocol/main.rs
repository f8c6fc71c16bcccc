//! Tests of the wire protocol: layouts, codes and strict views.

mod codes;
mod golden;
mod graph;
mod packed;
mod slot;
mod status;
mod views;
