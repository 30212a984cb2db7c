"""What LRGI is compared with, one page each."""
