"""Tables of a report: results, comparisons, training. Rates are in percent, differences in percentage points."""
