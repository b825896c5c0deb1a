"""Counters, gauges and histograms of a process. They are kept and read here, sent nowhere."""
