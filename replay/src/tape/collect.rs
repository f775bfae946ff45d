//! A tape's items into devices. This thread decodes the tape, and another one keeps the records: the system takes as
//! long to provide memory for them as decoding takes.

use std::io::Read;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use trace_format::{BaseState, DeviceId, Item, Place, ReadError, Reader, Record};

use super::stretch::Stretches;
use crate::sizes::SizeError;

/// Records of a part, about.
const RECORDS: usize = 1 << 14;
/// Parts that wait for the keeper, at most.
const PARTS: usize = 2;

/// The devices in the order of their first items.
pub(super) type Devices = Vec<(DeviceId, Stretches)>;

/// Items of one chunk and one device.
struct Part {
    device: DeviceId,
    place: Place,
    content: Content,
}

enum Content {
    Base(Box<BaseState>),
    Records(Vec<Record>),
}

/// Reads all items; metadata and tables stay with the reader.
///
/// # Errors
/// As the reader's, and where the items have sizes that no run has.
pub(super) fn collect<R: Read>(reader: &mut Reader<R>) -> Result<Devices, ReadError> {
    let (parts, taken) = sync_channel(PARTS);
    let (used, spares) = channel();
    let (read, kept) = thread::scope(|scope| {
        let keeper = thread::Builder::new().spawn_scoped(scope, move || keep(&taken, &used));
        let keeper = match keeper {
            Ok(keeper) => keeper,
            Err(error) => {
                let refused = reader.refuse(format!("cannot start a thread: {error}"));
                return (Err(refused), Ok(Devices::new()));
            }
        };
        let read = hand_over(reader, &parts, &spares);
        drop(parts);
        (read, keeper.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    // An item that was refused stands before one that cannot be read.
    let devices =
        kept.map_err(|(place, error): (_, SizeError)| reader.refuse_at(place, error.to_string()))?;
    read.map(|()| devices)
}

/// Hands over all items, or those before the first that the keeper refuses.
fn hand_over<R: Read>(
    reader: &mut Reader<R>,
    parts: &SyncSender<Part>,
    spares: &Receiver<Vec<Record>>,
) -> Result<(), ReadError> {
    let mut records = Vec::with_capacity(RECORDS);
    let (mut device, mut place) = (DeviceId::default(), reader.place());
    loop {
        let item = reader.next();
        let is_full = records.len() >= RECORDS;
        let continues = matches!(&item, Some(Ok(Item::Event(id, _))) if *id == device)
            && reader.place() == place;
        if !records.is_empty() && (is_full || !continues) {
            let spare = spares.try_recv().unwrap_or_default();
            let content = Content::Records(std::mem::replace(&mut records, spare));
            if parts.send(Part { device, place, content }).is_err() {
                return Ok(());
            }
            records.clear();
        }
        match item.transpose()? {
            None => return Ok(()),
            Some(Item::Meta(_)) => {} // The reader keeps the latest.
            Some(Item::Base(device, base)) => {
                let (place, content) = (reader.place(), Content::Base(base));
                if parts.send(Part { device, place, content }).is_err() {
                    return Ok(());
                }
            }
            Some(Item::Event(id, record)) => {
                (device, place) = (id, reader.place());
                records.push(record);
                records.extend_from_slice(reader.take_decoded());
            }
        }
    }
}

/// Keeps all parts, or returns the first that makes no sense with those before it.
fn keep(parts: &Receiver<Part>, used: &Sender<Vec<Record>>) -> Result<Devices, (Place, SizeError)> {
    let mut devices = Devices::new();
    for Part { device, place, content } in parts {
        let stretches = stretches(&mut devices, device);
        let kept = match content {
            Content::Base(base) => stretches.base(*base),
            Content::Records(records) => {
                let kept = stretches.extend(&records);
                // The reader may have ended.
                let _ = used.send(records);
                kept
            }
        };
        kept.map_err(|error| (place, error))?;
    }
    Ok(devices)
}

/// A device, which is new if it was not seen before.
pub(super) fn stretches(devices: &mut Devices, id: DeviceId) -> &mut Stretches {
    let at = devices.iter().position(|(known, _)| *known == id).unwrap_or_else(|| {
        devices.push((id, Stretches::default()));
        devices.len() - 1
    });
    &mut devices[at].1
}
