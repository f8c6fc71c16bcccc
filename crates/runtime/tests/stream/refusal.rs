//! What happens where the system does not allow io_uring.

use pelton::stream::{Input, StreamEngine, StreamError};

use crate::*;

pub(crate) const TESTS: &[Test] =
    named![plain_reads_are_used_where_rings_are_refused, rings_are_used_where_they_are_allowed];

/// Makes the system refuse `io_uring_setup` in this thread and in those that it starts, as containers do.
fn refuse_rings() {
    let load_number = libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 };
    let is_setup = libc::sock_filter { code: 0x15, jt: 0, jf: 1, k: libc::SYS_io_uring_setup as u32 };
    let refuse = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0x0005_0000 | libc::EPERM as u32 };
    let allow = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0x7fff_0000 };
    let mut filter = [load_number, is_setup, refuse, allow];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: this only takes rights away.
    let locked = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    // SAFETY: the program lies in `filter`, which is still there.
    let filtered = unsafe { libc::prctl(libc::PR_SET_SECCOMP, 2, &raw const program, 0, 0) };
    assert_eq!((locked, filtered), (0, 0), "{}", std::io::Error::last_os_error());
}

/// Catches a stream that fails where rings are refused, or that uses plain reads although it must not.
fn plain_reads_are_used_where_rings_are_refused() {
    let folder = Folder::new("refused");
    let bytes = noise(1, 100_000);
    let path = folder.write("bytes", &bytes);
    let session = on_cpu(1 << 14);
    let run = |engine| {
        let mut total = 0;
        let stream = session.stream(0, Input::files([&path])).chunk(4096).engine(engine).op("sum");
        let report = stream.run(|_, result| total += u64::from(result.unwrap()))?;
        assert_eq!(total, byte_sum(&bytes));
        Ok::<_, StreamError>(report)
    };
    std::thread::scope(|threads| {
        let refused = threads.spawn(|| {
            refuse_rings();
            let report = run(StreamEngine::Auto).unwrap();
            assert_eq!((report.engine, report.registered), (StreamEngine::Plain, false));
            let error = run(StreamEngine::IoUring).unwrap_err();
            assert!(error.to_string().starts_with("the system does not allow io_uring: "), "{error}");
        });
        refused.join().unwrap();
    });
    // The thread alone was refused.
    assert_eq!(run(StreamEngine::IoUring).unwrap().engine, StreamEngine::IoUring);
}

/// Catches a report that does not say how files were read.
fn rings_are_used_where_they_are_allowed() {
    let session = on_cpu(1 << 14);
    let report = |engine| {
        let input = Input::files([std::env::current_exe().unwrap()]);
        let stream = session.stream(0, input).chunk(4096).engine(engine).readers(2).op("argument");
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        stream.stop_flag(stop.clone()).run(|_, _| stop.store(true, Ordering::Relaxed)).unwrap()
    };
    assert_eq!(
        (report(StreamEngine::Auto).engine, report(StreamEngine::Auto).readers),
        (StreamEngine::IoUring, 2)
    );
    assert_eq!(report(StreamEngine::Plain).engine, StreamEngine::Plain);
    assert!(report(StreamEngine::IoUring).registered, "memory of the process can be registered");
}
