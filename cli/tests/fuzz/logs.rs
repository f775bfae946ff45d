//! Logs of RMM and problems of minimalloc.

use std::fmt::Write;

use crate::rng::Rng;

/// Either, of up to some hundred lines.
pub(crate) fn log(rng: &mut Rng) -> Vec<u8> {
    if rng.once_in(2) { rmm(rng) } else { minimalloc(rng) }
}

fn rmm(rng: &mut Rng) -> Vec<u8> {
    let headers = [
        "Thread,Time,Action,Pointer,Size,Stream",
        "Thread,Elapsed Nanoseconds,Action,Pointer,Size,Stream",
        "Event Type,Device ID,Address,Stream,Size (bytes),Free Memory,Total Memory,Current Allocs,Start,End,Elapsed,\
         Location",
    ];
    let header = *rng.pick(&headers);
    let mut text = format!("{header}\n");
    let rarity = *rng.pick(&[0, 0, 100, 20]);
    let mut live: Vec<(u64, u64)> = Vec::new();
    for at in 0..rng.below_one_of(&[3, 40, 200]) {
        let is_free = !live.is_empty() && rng.once_in(2);
        let (action, pointer, size) = if is_free {
            let at = rng.roll(live.len());
            let (pointer, size) = live.swap_remove(at);
            ("free", pointer, size)
        } else if rng.once_in(30) {
            ("allocate failure", 0, rng.size())
        } else {
            let block = (0x7f00_0000 + 4096 * at as u64, rng.size());
            live.push(block);
            ("allocate", block.0, block.1)
        };
        let action = if rng.once_in(200) { "Realloc" } else { action };
        let (pointer, size) = (rng.or_wrong(pointer, rarity), rng.or_wrong(size, rarity));
        let stream = rng.or_wrong(dice_stream(at), rarity);
        let second = rng.or_wrong(at as u64 % 60, rarity);
        let line = if header.starts_with("Event") {
            format!(
                "{action},{},{pointer:#x},{stream:#x},{size},1,1,1,{second},{second},1,a.cpp:{at}",
                at % 3
            )
        } else if header.contains("Elapsed") {
            format!("1,{second},{action},{pointer:#x},{size},{stream:#x}")
        } else {
            format!(
                "1,10:{:02}:{second:02}.{at:06},{action},{pointer:#x},{size},{stream:#x}",
                at / 60 % 60
            )
        };
        let _ = writeln!(text, "{line}");
    }
    text.into_bytes()
}

fn dice_stream(at: usize) -> u64 {
    [0, 0, 0, 7][at % 4]
}

fn minimalloc(rng: &mut Rng) -> Vec<u8> {
    let header = *rng.pick(&[
        "id,lower,upper,size",
        "buffer_id,start,end,size,offset",
        "id,begin,upper,size,alignment,gaps",
    ]);
    let mut text = format!("{header}\n");
    let rarity = *rng.pick(&[0, 0, 100, 20]);
    for id in 0..rng.below_one_of(&[3, 40, 200]) {
        let lower = rng.roll(1000) as u64;
        let upper = lower + 1 + rng.roll(100) as u64;
        let size = rng.size();
        let (lower, upper) =
            (rng.or_wrong(lower, rarity) as i64, rng.or_wrong(upper, rarity) as i64);
        let size = rng.or_wrong(size, rarity);
        let rest =
            if header.ends_with("offset") { format!(",{}", rng.extreme()) } else { String::new() };
        let rest = if header.ends_with("gaps") { ",64,\"1-2,3-4\"".to_owned() } else { rest };
        let _ = writeln!(text, "b{id},{lower},{upper},{size}{rest}");
    }
    text.into_bytes()
}
