//! The payload of a pages chunk.

use crate::{
    Addr, PageNumber,
    varint::{Cursor, Malformed, put, unzigzag, zigzag},
};

/// Appends the payload to `out`: differences to the mapping before.
pub(crate) fn encode(pages: &[(Addr, PageNumber)], out: &mut Vec<u8>) {
    put(out, pages.len() as u64);
    let mut last = (0, 0);
    for (addr, page) in pages {
        put(out, addr.0.wrapping_sub(last.0));
        put(out, zigzag(u64::from(page.0).wrapping_sub(last.1)));
        last = (addr.0, page.0.into());
    }
}

/// The mappings in a payload, which ascend. Fields that a later version appends are ignored.
pub(crate) fn decode(payload: &[u8]) -> Result<Vec<(Addr, PageNumber)>, Malformed> {
    let mut cursor = Cursor::new(payload);
    let mut pages: Vec<(Addr, PageNumber)> = Vec::new();
    let mut last = (0_u64, 0_u64);
    for _ in 0..cursor.count()? {
        let addr = last.0.checked_add(cursor.u64()?).ok_or(Malformed::Range)?;
        let page = last.1.wrapping_add(unzigzag(cursor.u64()?));
        if pages.last().is_some_and(|(before, _)| before.0 == addr) {
            return Err(Malformed::Order);
        }
        last = (addr, page);
        let page = u32::try_from(page).map_err(|_| Malformed::Range)?;
        pages.push((Addr(addr), PageNumber(page)));
    }
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn mappings_come_back_as_they_went(pages: std::collections::BTreeMap<u64, u32>) {
            let pages: Vec<_> = pages.into_iter().map(|(a, p)| (Addr(a), PageNumber(p))).collect();
            let mut payload = Vec::new();
            encode(&pages, &mut payload);
            prop_assert_eq!(decode(&payload), Ok(pages));
        }

        #[test]
        fn no_bytes_make_it_panic(payload: Vec<u8>) {
            let _ = decode(&payload);
        }
    }

    #[test]
    fn two_pages_at_one_address_are_refused() {
        let mut payload = Vec::new();
        encode(&[(Addr(8), PageNumber(1)), (Addr(8), PageNumber(2))], &mut payload);
        assert_eq!(decode(&payload), Err(Malformed::Order));
    }
}
