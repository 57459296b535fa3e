"""Results and inputs in files and folders, whole and streamed.

May use the other rooms but `small`.
"""
