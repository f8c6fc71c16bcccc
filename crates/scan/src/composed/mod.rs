//! Running an automaton over one text on many lanes at once, exactly, by composing transition functions.
//!
//! # The problem
//!
//! The state of an automaton depends on everything that it has read. So the second half of a text cannot be read before
//! the first, unless the state in the middle is known. The automata of a [`catalog`](crate::catalog) know it: their
//! state depends on a few bytes, and a lane that begins a few bytes early has the right state. Other automata do not
//! forget. Whether a byte lies in a string or in a comment depends on every quote before it, and one quote at the
//! beginning of a file changes the meaning of all others. There is no place to begin early.
//!
//! # The way out
//!
//! What a piece of text does to an automaton is a map from states to states: if the automaton enters the piece in state
//! *s*, it leaves it in state *m(s)*. The map of a piece does not depend on the text before the piece, so all pieces can
//! be read at the same time. And maps can be composed: the map of two adjacent pieces is that of the first followed by
//! that of the second. Composition is associative, so the maps of all beginnings of the text can be found by a parallel
//! scan in a logarithmic number of steps. Applied to the first state, they give the state at the border of every piece,
//! and after the last piece. Nothing is guessed, and there is no serial pass.
//!
//! A map of *S* states is found by running the automaton from all *S* states at once, so a lane may do *S* times the work
//! of a serial run. It is often less: runs that have met in the same state stay together, and only one of them goes on.
//!
//! # When it pays
//!
//! - **The automaton does not forget.** Otherwise it is cheaper to begin a few bytes early.
//! - **It has few states.** The work grows with their number, and so do the registers that a lane needs for its runs. In a
//!   group of 256 lanes on a GPU a lane has 64 registers, which are enough for eight states. With more, some are kept in
//!   memory for a while. The largest number is [`STATE_MAX`].
//! - **There are many more lanes than states.** A GPU has thousands of lanes for a text that a single core would have to
//!   read alone. On a CPU it takes several cores to be as fast as a good serial run on one.
//! - **The text is long.** Each lane should have at least some hundred bytes.
//!
//! # What lies where
//!
//! [`TransitionTable`] is an automaton, checked, which can also be run serially. [`StateMap`] is a map of its states; it
//! does on the host what lanes do on a device, and tests compare the two. [`ComposedRunner`] is a session with a handler
//! that all lanes of a group run together. Each lane reads a piece of the text. Then the group composes the maps in its
//! own memory: in step *k*, every lane composes its map with that of the lane 2^*k* before it. A task reads a *span*,
//! one piece for each lane. The host composes the maps of the spans, of which there are few.
//!
//! An automaton of up to ten states fits into 64 bits for each byte: six bits for each state, which say what the next
//! state is. These six bits are at the same time the number of bits by which the next byte's word is shifted. So a step
//! of a run is a single shift, and the words of all bytes together take 2 KiB of a group's memory. Larger automata have a
//! table there, and a step is a load.

mod state_map;
mod transitions;

#[cfg(feature = "session")]
mod handler;
#[cfg(feature = "session")]
mod runner;

#[cfg(feature = "session")]
pub use runner::{BorderStates, ComposedConfig, ComposedRunner};
pub use state_map::StateMap;
pub use transitions::{STATE_MAX, TransitionError, TransitionTable};
