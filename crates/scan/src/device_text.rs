//! Texts in regions of a session, in which four bytes are a word.

use pelton::Error;
use pelton::workspace::RegionView;

/// Copies a text to a region, from a word on. The last word has zeros after the text.
pub(crate) fn write_text(view: &RegionView<'_, u32>, first: usize, bytes: &[u8]) -> Result<(), Error> {
    // SAFETY: any four bytes are a valid `u32`.
    let (before, words, rest) = unsafe { bytes.align_to::<u32>() };
    if before.is_empty() {
        view.write(first, words)?;
        if !rest.is_empty() {
            view.write(first + words.len(), &[last_word(rest)])?;
        }
    } else {
        let (words, rest) = bytes.as_chunks::<4>();
        let mut words: Vec<u32> = words.iter().map(|word| u32::from_ne_bytes(*word)).collect();
        words.extend((!rest.is_empty()).then(|| last_word(rest)));
        view.write(first, &words)?;
    }
    Ok(())
}

/// The word that holds the last one to three bytes of a text.
fn last_word(rest: &[u8]) -> u32 {
    let mut bytes = [0; 4];
    bytes[..rest.len()].copy_from_slice(rest);
    u32::from_ne_bytes(bytes)
}
